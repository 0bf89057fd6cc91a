// Events.
#include "cuda/emulator/runtime/capture.h"
#include "cuda/emulator/runtime/memory.h"
#include "cuda/emulator/runtime/stream.h"

using namespace linea::emulator;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  *event = new CUevent_st;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(runtime_mutex());
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (is_capturing(stream)) {  // a point in the graph instead of an operation
    event->captured = capture_point(stream);
    event->point = {};
    return cudaSuccess;
  }
  const auto time = std::make_shared<std::chrono::steady_clock::time_point>();
  const cudaError_t error =
      issue(stream, NodeKind::other, [time] { *time = std::chrono::steady_clock::now(); });
  if (error != cudaSuccess) return record_error(error);
  event->time = time;
  event->captured = {};
  event->point = {queue_of(stream), queue_of(stream)->issued()};
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  const StreamPoint& point = event->point;
  return point.stream == nullptr || point.stream->done() >= point.issued ? cudaSuccess
                                                                         : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  if (event->point.stream != nullptr) event->point.stream->run_until(event->point.issued);
  release_unused_pool_memory();
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::lock_guard lock(runtime_mutex());
  for (const cudaEvent_t event : {start, end}) {
    if (!event->timed || event->time == nullptr || event->point.stream == nullptr)
      return record_error(cudaErrorInvalidResourceHandle);
    if (event->point.stream->done() < event->point.issued) return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *start->time).count();
  return cudaSuccess;
}

}  // extern "C"
