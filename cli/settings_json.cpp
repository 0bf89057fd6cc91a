#include "cli/settings_json.h"

#include <nlohmann/json.hpp>

namespace linea {

nlohmann::ordered_json settings_json(const RunConfig& config) {
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const AppliedSetting& applied : applied_settings(config))
    std::visit([&](const auto& held) { result[applied.setting.key] = held; }, applied.value);
  return result;
}

}  // namespace linea
