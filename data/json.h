// Text to JSON, compiled once: the parser costs each file that calls it seconds to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace linea {

// is_discarded() where the text is no JSON.
nlohmann::json parse_json(const std::string& text);

}  // namespace linea
