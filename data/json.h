// Parsing and printing of JSON, compiled once: it takes seconds in each file that includes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace linea {

// is_discarded() for text that is not JSON.
nlohmann::json parse_json(const std::string& text);

// The treatment of bytes that are not UTF-8.
enum class InvalidUtf8 { error, replace, ignore };

// On one line, or with `indent` blanks per level. Error: nlohmann::json::type_error for invalid
// UTF-8 with InvalidUtf8::error.
std::string dump_json(const nlohmann::json& document, int indent = -1,
                      InvalidUtf8 invalid_utf8 = InvalidUtf8::error);
std::string dump_json(const nlohmann::ordered_json& document, int indent = -1,
                      InvalidUtf8 invalid_utf8 = InvalidUtf8::error);

// One line on stdout, flushed.
void print_json_line(const nlohmann::ordered_json& document);

}  // namespace linea
