// The capture of streams into a graph: of one, and of those that wait for an event of it. One
// capture at a time.
#pragma once

#include <memory>

#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {

// Keeps the operation if its stream is captured: success, or why it cannot be kept.
// cudaErrorNotReady where the stream is not captured: the operation is to be put on it.
cudaError_t capture_instead(const std::shared_ptr<StreamQueue>& queue, const Operation& operation,
                            const std::vector<StreamPoint>& after);

// What a captured stream has come to: nodes that its next one follows.
CapturePoint capture_point(cudaStream_t stream);
// The stream's next node follows `point` too; a stream that was not captured is, from here on.
cudaError_t capture_after(cudaStream_t stream, const CapturePoint& point);

}  // namespace linea::emulator
