#include "cuda/emulator/runtime/capture.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>

namespace linea::emulator {
namespace {

struct Capture {
  uint64_t number = 0;
  std::shared_ptr<StreamQueue> stream;  // the origin stream; null: no capture
  // The last nodes of each captured stream.
  std::map<std::shared_ptr<StreamQueue>, std::vector<size_t>> last;
  std::unique_ptr<CUgraph_st> graph;
  bool invalidated = false;  // by a call that is forbidden during capture
};

Capture& current() {
  static Capture instance;
  return instance;
}

cudaError_t invalidate(cudaError_t error) {
  current().invalidated = true;
  return error;
}

void merge(std::vector<size_t>& into, const std::vector<size_t>& more) {
  into.insert(into.end(), more.begin(), more.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

// Whether every node is an ancestor of the origin stream's last nodes.
bool is_joined(const Capture& capture) {
  std::vector<bool> reached(capture.graph->nodes.size(), false);
  std::vector<size_t> stack = capture.last.at(capture.stream);
  while (!stack.empty()) {
    const size_t node = stack.back();
    stack.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    merge(stack, capture.graph->nodes[node].after);
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

// A topological order of the graph that interleaves its branches, so that conflicting accesses of
// two branches show.
std::vector<Operation> interleaved_order(const std::vector<CUgraph_st::Node>& nodes) {
  std::vector<size_t> num_pending(nodes.size());
  std::deque<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (num_pending[i] = nodes[i].after.size(); num_pending[i] == 0) ready.push_front(i);
  std::vector<Operation> order;
  for (; !ready.empty(); ready.pop_front()) {
    const size_t done = ready.front();
    order.push_back(nodes[done].operation);
    for (size_t i = done + 1; i < nodes.size(); ++i)
      if (std::binary_search(nodes[i].after.begin(), nodes[i].after.end(), done) &&
          --num_pending[i] == 0)
        ready.push_back(i);
  }
  return order;
}

}  // namespace

bool is_capturing(cudaStream_t stream) {
  return current().stream != nullptr && current().last.contains(queue_of(stream));
}

cudaError_t forbid_during_capture() {
  return current().stream == nullptr ? cudaSuccess : invalidate(cudaErrorStreamCaptureUnsupported);
}

cudaError_t try_capture(const std::shared_ptr<StreamQueue>& queue, NodeKind kind,
                        const Operation& operation, const std::vector<StreamPoint>& after) {
  Capture& capture = current();
  if (capture.stream == nullptr) return cudaErrorNotReady;
  const auto found = capture.last.find(queue);
  if (found == capture.last.end()) {
    const bool by_default = queue == queue_of(nullptr) && capture.stream->waits_for_default();
    return by_default ? invalidate(cudaErrorStreamCaptureImplicit) : cudaErrorNotReady;
  }
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  for (const StreamPoint& point : after)
    if (point.stream != queue) return invalidate(cudaErrorStreamCaptureIsolation);
  capture.graph->nodes.push_back({kind, operation, found->second});
  found->second = {capture.graph->nodes.size() - 1};
  return cudaSuccess;
}

CapturePoint capture_point(cudaStream_t stream) {
  return {current().number,
          is_capturing(stream) ? current().last.at(queue_of(stream)) : std::vector<size_t>{}};
}

cudaError_t add_capture_dependency(cudaStream_t stream, const CapturePoint& point) {
  Capture& capture = current();
  if (capture.stream == nullptr || capture.number != point.capture)
    return cudaErrorInvalidValue;  // the event's capture has ended
  if (stream == nullptr || stream == cudaStreamLegacy)
    return invalidate(cudaErrorStreamCaptureImplicit);
  merge(capture.last[queue_of(stream)], point.nodes);
  return cudaSuccess;
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(runtime_mutex());
  if (stream == nullptr || stream == cudaStreamLegacy)
    return record_error(cudaErrorStreamCaptureUnsupported);
  if (current().stream != nullptr) return record_error(cudaErrorIllegalState);
  static uint64_t captures = 0;
  const auto queue = queue_of(stream);
  current() = {++captures, queue, {{queue, {}}}, std::make_unique<CUgraph_st>()};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(runtime_mutex());
  *graph = nullptr;
  if (!is_capturing(stream)) return record_error(cudaErrorIllegalState);
  if (current().stream != queue_of(stream))
    return record_error(invalidate(cudaErrorStreamCaptureUnmatched));
  Capture ended = std::exchange(current(), {});
  if (ended.invalidated) return record_error(cudaErrorStreamCaptureInvalidated);
  if (!is_joined(ended)) return record_error(cudaErrorStreamCaptureUnjoined);
  *graph = ended.graph.release();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(runtime_mutex());
  *status = cudaStreamCaptureStatusNone;
  if (is_capturing(stream))
    *status =
        current().invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

// ---- graphs ----

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  const std::lock_guard lock(runtime_mutex());
  if (nodes != nullptr) return record_error(cudaErrorNotSupported);
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(runtime_mutex());
  for (const CUgraph_st::Node& node : graph->nodes) ++node_count(node.kind);
  *exec = new CUgraphExec_st{
      std::make_shared<const std::vector<Operation>>(interleaved_order(graph->nodes))};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return record_error(issue(stream, NodeKind::other, [operations = exec->operations] {
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
