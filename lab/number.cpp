#include "lab/number.h"

#include "base/error.h"
#include "data/chart.h"

namespace linea::lab {
namespace {

std::string without_commas(std::string text) {
  std::erase(text, ',');
  return text;
}

std::string number(const char* kind, const char* attribute, const std::string& source,
                   const std::string& text) {
  return fmt::format("<data class=\"{}\" {}=\"{}\" value=\"{}\">{}</data>", kind, attribute,
                     escape_xml(source), escape_xml(without_commas(text)), escape_xml(text));
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
  return number("exact", "data-by", expression, text);
}

std::string published_number(const std::string& text, const std::string& source) {
  return number("published", "data-by", source, text);
}

std::string measured_number(const std::string& text, const std::string& from) {
  return number("measured", "data-from", from, text);
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
