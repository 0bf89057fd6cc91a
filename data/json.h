// Parsing and printing of JSON, compiled once: it takes seconds in each file that includes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace linea {

// is_discarded() for text that is not JSON.
nlohmann::json parse_json(const std::string& text);

// On one line, or with `indent` blanks per level. Texts that are not UTF-8 are written by
// valid_utf8() (data/utf8.h).
std::string dump_json(const nlohmann::json& document, int indent = -1);
std::string dump_json(const nlohmann::ordered_json& document, int indent = -1);

// One line on stdout, flushed.
void print_json_line(const nlohmann::ordered_json& document);

}  // namespace linea
