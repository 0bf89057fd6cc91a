// Streams: queues of operations, which run as late as CUDA permits unless the settings say
// otherwise, so that a missing synchronization reads stale data. Graphs: operations recorded
// instead of run.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/emulator/counts.h"

namespace linea::emulator {

using Operation = std::function<void()>;

class StreamQueue;

// The point of a stream after its first `issued` operations.
struct StreamPoint {
  std::shared_ptr<StreamQueue> stream;
  uint64_t issued = 0;
};

class StreamQueue {
 public:
  explicit StreamQueue(bool waits_for_default) : waits_for_default_(waits_for_default) {}

  bool waits_for_default() const { return waits_for_default_; }
  bool idle() const { return done_ == issued_; }
  uint64_t issued() const { return issued_; }
  uint64_t done() const { return done_; }
  void add(Operation operation, std::vector<StreamPoint> after);
  void run_until(uint64_t issued);
  void run_all() { run_until(issued_); }

 private:
  struct PendingOperation {
    Operation operation;
    std::vector<StreamPoint> after;
  };
  std::deque<PendingOperation> pending_;
  uint64_t issued_ = 0, done_ = 0;
  bool waits_for_default_, running_ = false;
};

// The queue of a stream; null: the default stream.
std::shared_ptr<StreamQueue> queue_of(cudaStream_t stream);

// Enqueues an operation on a stream, to run after `after`; or adds it to the graph that the stream
// is being captured into.
cudaError_t issue(cudaStream_t stream, NodeKind kind, Operation operation,
                  std::vector<StreamPoint> after = {});

void run_all_streams();

// ---- capture ----

// Nodes of a graph being captured.
struct CapturePoint {
  uint64_t capture = 0;  // the number of the capture; 0: none
  std::vector<size_t> nodes;
};

bool is_capturing(cudaStream_t stream);
// Success, or the error of a call that is forbidden during capture, which it invalidates.
cudaError_t forbid_during_capture();

// ---- shared by all functions of the runtime ----

// Held during each call: host threads take turns.
std::recursive_mutex& runtime_mutex();

// Saves an error for cudaGetLastError, and returns it.
cudaError_t record_error(cudaError_t error);

// Success, or the error for a machine without a GPU.
cudaError_t require_device();

}  // namespace linea::emulator

struct CUstream_st {
  std::shared_ptr<linea::emulator::StreamQueue> queue;
};

struct CUevent_st {
  linea::emulator::StreamPoint point;
  bool timed = true;
  linea::emulator::CapturePoint captured;  // the last record, if its stream was being captured
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

struct CUgraph_st {
  struct Node {
    linea::emulator::NodeKind kind;
    linea::emulator::Operation operation;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;  // in topological order
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<linea::emulator::Operation>> operations;
};
