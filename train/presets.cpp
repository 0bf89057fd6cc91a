#include "train/presets.h"

#include <sstream>

#include "base/error.h"
#include "base/settings.h"

namespace linea {
namespace {

void append(std::string& text, const std::string& more) {
  if (!text.empty()) text += ' ';
  text += more;
}

// "460,000" -> "460000"
std::string without_commas(std::string text) {
  std::erase(text, ',');
  return text;
}

}  // namespace

PresetFacts preset_facts(const std::string& text) {
  std::string about, parameters, minutes, reaches;
  const std::pair<std::string, std::string*> fields[] = {
      {"Parameters: ", &parameters}, {"Minutes: ", &minutes}, {"Reaches: ", &reaches}};
  std::istringstream lines(text);
  std::string* field = &about;
  for (std::string line; std::getline(lines, line) && line.starts_with("# ");) {
    line.erase(0, 2);
    for (const auto& [name, value] : fields)
      if (line.starts_with(name)) {
        field = value;
        line.erase(0, name.size());
      }
    append(*field, line);
  }
  for (const auto& [name, value] : fields)
    require(!value->empty(), "the comments of the preset have no line '# {}...'", name);
  return {about, parse_number<int64_t>("parameters", without_commas(parameters)),
          parse_number<double>("minutes", without_commas(minutes)), reaches};
}

}  // namespace linea
