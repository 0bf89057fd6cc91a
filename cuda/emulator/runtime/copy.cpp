// Copies and fills, as late as CUDA permits: a copy from pageable host memory reads it at the call,
// a copy to pageable memory completes before the call returns, and a copy between pinned and device
// memory runs in stream order.
#include <cstring>
#include <memory>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime/arena.h"
#include "cuda/emulator/runtime/memory.h"
#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {
namespace {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  bool to_device, from_device;
};

void run_copy(const Copy& copy) {
  if (copy.to_device) arena().check_range(copy.to, copy.bytes, "a copy writes");
  if (copy.from_device) arena().check_range(copy.from, copy.bytes, "a copy reads");
  if (checker != nullptr && copy.from_device) checker->on_device_read(copy.from, copy.bytes);
  std::memmove(copy.to, copy.from, copy.bytes);
  if (checker != nullptr && copy.to_device) checker->on_device_write(copy.to, copy.bytes);
}

bool kind_fits(cudaMemcpyKind kind, const Copy& copy) {
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return copy.to_device == to_device && copy.from_device == from_device;
}

cudaError_t issue_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream, bool synchronous) {
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  Copy copy{to, from, bytes, arena().contains(to), arena().contains(from)};
  if (bytes == 0) return cudaSuccess;
  if (!kind_fits(kind, copy)) return cudaErrorInvalidValue;
  const bool reads_pageable = !copy.from_device && !is_pinned(from);
  const bool writes_pageable = !copy.to_device && !is_pinned(to);
  if (synchronous || ((reads_pageable || writes_pageable) && is_capturing(stream)))
    if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess) return error;
  std::shared_ptr<char[]> staged;
  if (reads_pageable && copy.to_device) {
    staged.reset(new char[bytes]);
    copy.from = std::memcpy(staged.get(), from, bytes);
  }
  const cudaError_t error = issue(stream, NodeKind::copy, [copy, staged] { run_copy(copy); });
  // The host never waits for copies within the device.
  const bool within_device = copy.to_device && copy.from_device;
  if (error == cudaSuccess && (writes_pageable || (synchronous && !within_device)))
    queue_of(stream)->run_all();
  return error;
}

cudaError_t issue_fill(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  return issue(stream, NodeKind::memset, [=] {
    arena().check_range(to, bytes, "cudaMemset writes");
    std::memset(to, value, bytes);
    if (checker != nullptr) checker->on_device_write(to, bytes);
  });
}

}  // namespace
}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(runtime_mutex());
  return record_error(issue_copy(to, from, bytes, kind, nullptr, true));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return record_error(issue_copy(to, from, bytes, kind, stream, false));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return record_error(issue_fill(to, value, bytes, stream));
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  return record_error(issue_fill(to, value, bytes, nullptr));
}

}  // extern "C"
