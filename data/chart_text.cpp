#include "data/chart_text.h"

#include <fmt/format.h>

#include "data/chart.h"
#include "data/utf8.h"

namespace linea {
namespace {

double letters(const std::string& text) {
  double count = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) != 0x80) count += byte >= 0xE1 ? 1.7 : 1;  // from U+1000 on they are wide
  }
  return count;
}

}  // namespace

double text_width(const std::string& text, double size, double em) {
  return em * size * letters(text);
}

std::string shortened(const std::string& text, double size, double width) {
  if (text_width(text, size) <= width) return text;
  size_t first = 0;
  while (first < text.size() && text_width("\u2026" + text.substr(first), size) > width) {
    ++first;
    while (first < text.size() && (static_cast<unsigned char>(text[first]) & 0xC0) == 0x80) ++first;
  }
  return "\u2026" + text.substr(first);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const std::string& more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                     anchor, more, escape_xml(text));
}

std::string escape_xml(const std::string& text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&apos;";
        break;
      case '\t':
      case '\n':
      case '\r':
        result += ' ';
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    }
  }
  return result;
}

}  // namespace linea
