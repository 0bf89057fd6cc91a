// The settings of a run in the JSON that commands print.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/config.h"

namespace linea {

// The settings that apply, in the order of their declarations: numbers are numbers, flags are
// flags.
nlohmann::ordered_json settings_json(const RunConfig& config);

}  // namespace linea
