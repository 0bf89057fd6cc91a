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
  std::shared_ptr<StreamQueue> stream;  // the first; null: there is no capture
  std::map<std::shared_ptr<StreamQueue>, std::vector<size_t>>
      last;  // of each stream that is captured: its last nodes
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

void merge(std::vector<size_t>& into, const std::vector<size_t>& more) {
  into.insert(into.end(), more.begin(), more.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

// Every node leads to the last ones of the first stream.
bool joined(const Capture& capture) {
  std::vector<bool> reached(capture.graph->nodes.size(), false);
  std::vector<size_t> left = capture.last.at(capture.stream);
  while (!left.empty()) {
    const size_t node = left.back();
    left.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    merge(left, capture.graph->nodes[node].after);
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

// An order in which a graph may be run: nodes whose predecessors are done take turns, so that
// branches are mixed and what one of them may not touch of another's shows.
std::vector<Operation> mixed_order(const std::vector<CUgraph_st::Node>& nodes) {
  std::vector<size_t> open(nodes.size());
  std::deque<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (open[i] = nodes[i].after.size(); open[i] == 0) ready.push_front(i);
  std::vector<Operation> order;
  for (; !ready.empty(); ready.pop_front()) {
    const size_t done = ready.front();
    order.push_back(nodes[done].operation);
    for (size_t i = done + 1; i < nodes.size(); ++i)
      if (std::binary_search(nodes[i].after.begin(), nodes[i].after.end(), done) && --open[i] == 0)
        ready.push_back(i);
  }
  return order;
}

}  // namespace

bool capturing(cudaStream_t stream) {
  return current().stream != nullptr && current().last.contains(queue_of(stream));
}

cudaError_t refuse_while_capturing() {
  return current().stream == nullptr ? cudaSuccess : lose(cudaErrorStreamCaptureUnsupported);
}

cudaError_t capture_instead(const std::shared_ptr<StreamQueue>& queue, const Operation& operation,
                            const std::vector<StreamPoint>& after) {
  Capture& capture = current();
  if (capture.stream == nullptr) return cudaErrorNotReady;
  const auto found = capture.last.find(queue);
  if (found == capture.last.end()) {
    const bool by_default = queue == queue_of(nullptr) && capture.stream->waits_for_default();
    return by_default ? lose(cudaErrorStreamCaptureImplicit) : cudaErrorNotReady;
  }
  if (capture.lost) return cudaErrorStreamCaptureInvalidated;
  for (const StreamPoint& point : after)
    if (point.stream != queue) return lose(cudaErrorStreamCaptureIsolation);
  capture.graph->nodes.push_back({operation, found->second});
  found->second = {capture.graph->nodes.size() - 1};
  return cudaSuccess;
}

CapturePoint capture_point(cudaStream_t stream) {
  return {current().number,
          capturing(stream) ? current().last.at(queue_of(stream)) : std::vector<size_t>{}};
}

cudaError_t capture_after(cudaStream_t stream, const CapturePoint& point) {
  Capture& capture = current();
  if (capture.stream == nullptr || capture.number != point.capture)
    return cudaErrorInvalidValue;  // it has ended
  if (stream == nullptr || stream == cudaStreamLegacy) return lose(cudaErrorStreamCaptureImplicit);
  merge(capture.last[queue_of(stream)], point.nodes);
  return cudaSuccess;
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(runtime_mutex());
  if (stream == nullptr || stream == cudaStreamLegacy)
    return remember(cudaErrorStreamCaptureUnsupported);
  if (current().stream != nullptr) return remember(cudaErrorIllegalState);
  static uint64_t captures = 0;
  const auto queue = queue_of(stream);
  current() = {++captures, queue, {{queue, {}}}, std::make_unique<CUgraph_st>()};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(runtime_mutex());
  *graph = nullptr;
  if (!capturing(stream)) return remember(cudaErrorIllegalState);
  if (current().stream != queue_of(stream)) return remember(lose(cudaErrorStreamCaptureUnmatched));
  Capture ended = std::exchange(current(), {});
  if (ended.lost) return remember(cudaErrorStreamCaptureInvalidated);
  if (!joined(ended)) return remember(cudaErrorStreamCaptureUnjoined);
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
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(runtime_mutex());
  *exec =
      new CUgraphExec_st{std::make_shared<const std::vector<Operation>>(mixed_order(graph->nodes))};
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
