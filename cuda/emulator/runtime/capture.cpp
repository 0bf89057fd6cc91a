#include "cuda/emulator/runtime/capture.h"

#include <memory>
#include <utility>

namespace linea::emulator {
namespace {

struct Capture {
  std::shared_ptr<StreamQueue> stream;  // null: there is no capture
  std::unique_ptr<CUgraph_st> graph;
  bool lost = false;  // by a call that a capture forbids
};

Capture& current() {
  static Capture instance;
  return instance;
}

cudaError_t lose(cudaError_t error) {
  current().lost = true;
  return error;
}

}  // namespace

bool capturing(cudaStream_t stream) { return current().stream != nullptr && current().stream == queue_of(stream); }

cudaError_t refuse_while_capturing() {
  return current().stream == nullptr ? cudaSuccess : lose(cudaErrorStreamCaptureUnsupported);
}

cudaError_t capture_instead(const std::shared_ptr<StreamQueue>& queue, const Operation& operation,
                            const std::vector<StreamPoint>& after) {
  Capture& capture = current();
  if (capture.stream == nullptr) return cudaErrorNotReady;
  if (capture.stream != queue) {
    const bool by_default = queue == queue_of(nullptr) && capture.stream->waits_for_default();
    return by_default ? lose(cudaErrorStreamCaptureImplicit) : cudaErrorNotReady;
  }
  if (capture.lost) return cudaErrorStreamCaptureInvalidated;
  for (const StreamPoint& point : after)
    if (point.stream != queue) return lose(cudaErrorStreamCaptureIsolation);
  capture.graph->operations.push_back(operation);
  return cudaSuccess;
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(runtime_mutex());
  if (stream == nullptr || stream == cudaStreamLegacy) return remember(cudaErrorStreamCaptureUnsupported);
  if (current().stream != nullptr) return remember(cudaErrorIllegalState);
  current() = {queue_of(stream), std::make_unique<CUgraph_st>()};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(runtime_mutex());
  *graph = nullptr;
  if (!capturing(stream)) return remember(cudaErrorIllegalState);
  Capture ended = std::exchange(current(), {});
  if (ended.lost) return remember(cudaErrorStreamCaptureInvalidated);
  *graph = ended.graph.release();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(runtime_mutex());
  *status = cudaStreamCaptureStatusNone;
  if (capturing(stream))
    *status = current().lost ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

// ---- graphs ----

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  const std::lock_guard lock(runtime_mutex());
  if (nodes != nullptr) return remember(cudaErrorNotSupported);
  *count = graph->operations.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(runtime_mutex());
  *exec = new CUgraphExec_st{std::make_shared<const std::vector<Operation>>(graph->operations)};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return remember(issue(stream, [operations = exec->operations] {
    for (const Operation& operation : *operations) operation();
  }));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(runtime_mutex());
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const std::lock_guard lock(runtime_mutex());
  delete exec;
  return cudaSuccess;
}

}  // extern "C"
