// Steps of work captured as CUDA graphs.
#pragma once

#include <memory>

#include "tensor/backend.h"

namespace linea::cuda {

std::unique_ptr<GraphRecorder> make_graph_recorder(Context& ctx);

}  // namespace linea::cuda
