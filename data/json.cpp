#include "data/json.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace linea {
namespace {

template <typename Json>
std::string dump(const Json& document, int indent, InvalidUtf8 invalid_utf8) {
  using Handler = nlohmann::json::error_handler_t;
  const Handler handler = invalid_utf8 == InvalidUtf8::error     ? Handler::strict
                          : invalid_utf8 == InvalidUtf8::replace ? Handler::replace
                                                                 : Handler::ignore;
  return document.dump(indent, ' ', false, handler);
}

}  // namespace

nlohmann::json parse_json(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false);
}

std::string dump_json(const nlohmann::json& document, int indent, InvalidUtf8 invalid_utf8) {
  return dump(document, indent, invalid_utf8);
}
std::string dump_json(const nlohmann::ordered_json& document, int indent,
                      InvalidUtf8 invalid_utf8) {
  return dump(document, indent, invalid_utf8);
}

void print_json_line(const nlohmann::ordered_json& document) {
  std::printf("%s\n", dump_json(document).c_str());
  std::fflush(stdout);
}

}  // namespace linea
