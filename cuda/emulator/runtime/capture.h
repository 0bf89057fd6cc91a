// Stream capture into a graph: of an origin stream, and of the streams that wait for its events.
// Only one capture at a time.
#pragma once

#include <memory>

#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {

// Adds the operation to the graph if its stream is being captured: success, or why the capture
// fails. cudaErrorNotReady: the stream is not being captured, and the caller enqueues the
// operation.
cudaError_t try_capture(const std::shared_ptr<StreamQueue>& queue, NodeKind kind,
                        const Operation& operation, const std::vector<StreamPoint>& after);

// The nodes that the stream's next node depends on.
CapturePoint capture_point(cudaStream_t stream);
// Makes the stream's next node depend on `point`. A stream that was not captured joins the capture.
cudaError_t add_capture_dependency(cudaStream_t stream, const CapturePoint& point);

}  // namespace linea::emulator
