// Steps of work recorded as CUDA graphs.
#pragma once

#include <memory>

#include "tensor/kernels.h"

namespace linea::cuda {

std::unique_ptr<GraphRecorder> make_graph_recorder(Context& ctx);

}  // namespace linea::cuda
