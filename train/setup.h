// Settings that the data determines, and the model built from them.
#pragma once

#include "data/tasks/task.h"
#include "nn/model.h"
#include "train/config.h"

namespace linea {

// Sets the sizes that the task fixed; returns the configuration of the model.
ModelConfig complete_config(RunConfig& config, const Task& task);

}  // namespace linea
