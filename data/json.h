// JSON from text and to text, compiled once: either costs each file that does it seconds to
// compile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace linea {

// is_discarded() where the text is no JSON.
nlohmann::json parse_json(const std::string& text);

// What becomes of bytes that are no UTF-8.
enum class NoUtf8 { refused, replaced, left_out };

// In one line, or with `indent` blanks a level. Error: nlohmann::json::type_error of what is
// refused.
std::string json_text(const nlohmann::json& document, int indent = -1,
                      NoUtf8 no_utf8 = NoUtf8::refused);
std::string json_text(const nlohmann::ordered_json& document, int indent = -1,
                      NoUtf8 no_utf8 = NoUtf8::refused);

// One line on stdout, flushed.
void print_json_line(const nlohmann::ordered_json& document);

}  // namespace linea
