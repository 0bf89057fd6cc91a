// The capture of one stream into a graph. Only one stream is captured at a time, and no other may join it.
#pragma once

#include <memory>

#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {

// Keeps the operation if its stream is captured: success, or why it cannot be kept. cudaErrorNotReady where the
// stream is not captured: the operation is to be put on it.
cudaError_t capture_instead(const std::shared_ptr<StreamQueue>& queue, const Operation& operation,
                            const std::vector<StreamPoint>& after);

}  // namespace linea::emulator
