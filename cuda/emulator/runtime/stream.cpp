#include "cuda/emulator/runtime/stream.h"

#include <algorithm>
#include <utility>

#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime/arena.h"
#include "cuda/emulator/runtime/capture.h"
#include "cuda/emulator/runtime/memory.h"
#include "cuda/emulator/settings.h"

namespace linea::emulator {
namespace {

struct Streams {
  std::shared_ptr<StreamQueue> default_stream = std::make_shared<StreamQueue>(true);
  std::vector<std::weak_ptr<StreamQueue>> others;

  // All existing streams, the default stream first.
  std::vector<std::shared_ptr<StreamQueue>> all() {
    std::vector<std::shared_ptr<StreamQueue>> result{default_stream};
    std::erase_if(others, [](const auto& stream) { return stream.expired(); });
    for (const auto& stream : others) result.push_back(stream.lock());
    return result;
  }
};

Streams& streams() {
  static Streams instance;
  return instance;
}

Random& random_streams() {
  static Random instance(settings().seed);
  return instance;
}

// Adds the implicit synchronization between the default stream and blocking streams.
void add_implicit_dependencies(const std::shared_ptr<StreamQueue>& queue,
                               std::vector<StreamPoint>& after) {
  Streams& known = streams();
  if (queue == known.default_stream) {
    for (const auto& other : known.all())
      if (other != queue && other->waits_for_default() && !other->idle())
        after.push_back({other, other->issued()});
  } else if (queue->waits_for_default() && !known.default_stream->idle()) {
    after.push_back({known.default_stream, known.default_stream->issued()});
  }
}

void run_some() {
  const auto all = streams().all();
  StreamQueue& chosen = *all[random_streams().below(static_cast<uint32_t>(all.size()))];
  if (chosen.idle()) return;
  const auto num_left = static_cast<uint32_t>(chosen.issued() - chosen.done());
  chosen.run_until(chosen.done() + 1 + random_streams().below(num_left));
}

}  // namespace

void StreamQueue::add(Operation operation, std::vector<StreamPoint> after) {
  pending_.push_back({std::move(operation), std::move(after)});
  ++issued_;
}

void StreamQueue::run_until(uint64_t issued) {
  while (done_ < issued) {
    if (running_) fatal("a stream operation waits for itself");
    running_ = true;
    const PendingOperation next = std::move(pending_.front());
    pending_.pop_front();
    for (const StreamPoint& point : next.after) point.stream->run_until(point.issued);
    {
      const ArenaAccess access;
      next.operation();
    }
    ++done_;
    running_ = false;
  }
}

std::shared_ptr<StreamQueue> queue_of(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return streams().default_stream;
  if (stream == cudaStreamPerThread) fatal("per-thread default streams are not emulated");
  return stream->queue;
}

cudaError_t issue(cudaStream_t stream, NodeKind kind, Operation operation,
                  std::vector<StreamPoint> after) {
  const std::shared_ptr<StreamQueue> queue = queue_of(stream);
  if (const cudaError_t error = try_capture(queue, kind, operation, after);
      error != cudaErrorNotReady)
    return error;
  add_implicit_dependencies(queue, after);
  queue->add(std::move(operation), std::move(after));
  if (settings().stream_order == StreamOrder::eager) queue->run_all();
  if (settings().stream_order == StreamOrder::random) run_some();
  return cudaSuccess;
}

void run_all_streams() {
  auto all = streams().all();
  if (settings().stream_order == StreamOrder::random)
    for (size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1], all[random_streams().below(static_cast<uint32_t>(i))]);
  for (const auto& stream : all) stream->run_all();
}

std::recursive_mutex& runtime_mutex() {
  static std::recursive_mutex instance;
  return instance;
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking)
    return record_error(cudaErrorInvalidValue);
  *stream = new CUstream_st{std::make_shared<StreamQueue>(flags == cudaStreamDefault)};
  streams().others.push_back((*stream)->queue);
  return cudaSuccess;
}

// Pending operations still run; here at once.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (stream == nullptr) return record_error(cudaErrorInvalidResourceHandle);
  stream->queue->run_all();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  queue_of(stream)->run_all();
  release_unused_pool_memory();
  return cudaSuccess;
}

// Each query runs one operation of the stream.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  const auto queue = queue_of(stream);
  if (queue->idle()) return cudaSuccess;
  queue->run_until(queue->done() + 1);
  return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(runtime_mutex());
  if (event->captured.capture != 0)
    return record_error(add_capture_dependency(stream, event->captured));
  if (event->point.stream == nullptr) return cudaSuccess;  // never recorded
  return record_error(issue(stream, NodeKind::other, [] {}, {event->point}));
}

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  run_all_streams();
  release_unused_pool_memory();
  return cudaSuccess;
}

}  // extern "C"
