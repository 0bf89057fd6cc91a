#include "data/json.h"

#include <nlohmann/json.hpp>

namespace linea {

nlohmann::json parse_json(const std::string& text) { return nlohmann::json::parse(text, nullptr, false); }

}  // namespace linea
