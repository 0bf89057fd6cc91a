#include "lab/number.h"

#include "base/error.h"
#include "data/chart.h"

namespace linea::lab {
namespace {

std::string without_commas(std::string text) {
  std::erase(text, ',');
  return text;
}

}  // namespace

std::string grouped(double x, int decimals) {
  std::string text = fmt::format("{:.{}f}", x, decimals);
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t at = std::min(text.find('.'), text.size()); at > first + 3;)
    text.insert(at -= 3, ",");
  return text;
}

std::string exact_number(const std::string& text, const std::string& expression) {
  return fmt::format("<data class=\"exact\" data-by=\"{}\" value=\"{}\">{}</data>",
                     escape_xml(expression), without_commas(text), text);
}

std::string measured_number(const std::string& text, const std::string& from) {
  return fmt::format("<data class=\"measured\" data-from=\"{}\" value=\"{}\">{}</data>",
                     escape_xml(from), without_commas(text), escape_xml(text));
}

std::string without_elements(const std::string& html) {
  std::string text;
  bool inside = false;
  for (const char c : html) {
    if (c == '<') inside = true;
    if (!inside) text += c;
    if (c == '>') inside = false;
  }
  return text;
}

}  // namespace linea::lab
