// Streams: operations in the order in which they were issued, run as late as CUDA permits unless
// the settings say otherwise, so that whoever forgets to wait sees old data. And graphs, which are
// operations kept instead of run.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace linea::emulator {

using Operation = std::function<void()>;

class StreamQueue;

// A point of a stream: what was issued before it.
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
  struct Waiting {
    Operation operation;
    std::vector<StreamPoint> after;
  };
  std::deque<Waiting> waiting_;
  uint64_t issued_ = 0, done_ = 0;
  bool waits_for_default_, running_ = false;
};

// The queue of a handle; of the default stream for null.
std::shared_ptr<StreamQueue> queue_of(cudaStream_t stream);

// Puts an operation on a stream, after what `after` names; or into the graph that the stream is
// captured into.
cudaError_t issue(cudaStream_t stream, Operation operation, std::vector<StreamPoint> after = {});

void run_all_streams();

// ---- capture ----

// Nodes of the graph of one capture.
struct CapturePoint {
  uint64_t capture = 0;  // its number; 0: none
  std::vector<size_t> nodes;
};

bool capturing(cudaStream_t stream);
// Success, or the error of a call that a capture forbids; the capture is then lost.
cudaError_t refuse_while_capturing();

// ---- what every function of the runtime does first and last ----

// One call at a time; threads of the host may take turns.
std::recursive_mutex& runtime_mutex();

// Keeps an error for cudaGetLastError.
cudaError_t remember(cudaError_t error);
cudaError_t take_last_error();
cudaError_t last_error();

// Success, or the error of a machine without a GPU.
cudaError_t need_device();

}  // namespace linea::emulator

struct CUstream_st {
  std::shared_ptr<linea::emulator::StreamQueue> queue;
};

struct CUevent_st {
  linea::emulator::StreamPoint point;
  bool timed = true;
  linea::emulator::CapturePoint captured;  // recorded last while its stream was captured
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

struct CUgraph_st {
  struct Node {
    linea::emulator::Operation operation;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;  // each after those that it follows
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<linea::emulator::Operation>> operations;
};
