#include "train/setup.h"

namespace linea {

ModelConfig complete_config(RunConfig& config, const Task& task) {
  const TaskShape& shape = task.shape();
  config.length = shape.length;
  config.size = shape.side;
  config.levels = shape.levels;
  config.channels = shape.channels;
  return model_config(config, shape);
}

}  // namespace linea
