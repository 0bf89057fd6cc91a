#include "data/json.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace linea {
namespace {

template <typename Json>
std::string text_of(const Json& document, int indent, NoUtf8 no_utf8) {
  using Handler = nlohmann::json::error_handler_t;
  const Handler handler = no_utf8 == NoUtf8::refused    ? Handler::strict
                          : no_utf8 == NoUtf8::replaced ? Handler::replace
                                                        : Handler::ignore;
  return document.dump(indent, ' ', false, handler);
}

}  // namespace

nlohmann::json parse_json(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false);
}

std::string json_text(const nlohmann::json& document, int indent, NoUtf8 no_utf8) {
  return text_of(document, indent, no_utf8);
}
std::string json_text(const nlohmann::ordered_json& document, int indent, NoUtf8 no_utf8) {
  return text_of(document, indent, no_utf8);
}

void print_json_line(const nlohmann::ordered_json& document) {
  std::printf("%s\n", json_text(document).c_str());
  std::fflush(stdout);
}

}  // namespace linea
