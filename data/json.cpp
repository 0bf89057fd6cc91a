#include "data/json.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/utf8.h"

namespace linea {
namespace {

template <typename Json>
Json with_valid_texts(const Json& document) {
  if (document.is_string()) return valid_utf8(document.template get<std::string>());
  if (!document.is_structured()) return document;
  Json valid = document.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : document.items()) {
    if (document.is_array())
      valid.push_back(with_valid_texts(value));
    else
      valid[valid_utf8(key)] = with_valid_texts(value);
  }
  return valid;
}

template <typename Json>
std::string dump(const Json& document, int indent) {
  return with_valid_texts(document).dump(indent);
}

}  // namespace

nlohmann::json parse_json(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false);
}

std::string dump_json(const nlohmann::json& document, int indent) { return dump(document, indent); }
std::string dump_json(const nlohmann::ordered_json& document, int indent) {
  return dump(document, indent);
}

void print_json_line(const nlohmann::ordered_json& document) {
  std::printf("%s\n", dump_json(document).c_str());
  std::fflush(stdout);
}

}  // namespace linea
