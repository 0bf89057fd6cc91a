// Copies and fills. What CUDA lets happen late does: a copy from pageable memory of the host reads
// it at the call, one to it has been done when the call returns, and one between pinned and device
// memory is done when the stream comes to it.
#include <cstring>
#include <memory>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime/arena.h"
#include "cuda/emulator/runtime/memory.h"
#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {
namespace {

struct Rows {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch;
  size_t bytes, rows;
  bool to_device, from_device;
};

void copy_rows(const Rows& copy) {
  for (size_t row = 0; row < copy.rows; ++row) {
    char* to = copy.to + row * copy.to_pitch;
    const char* from = copy.from + row * copy.from_pitch;
    if (copy.to_device) arena().need(to, copy.bytes, "a copy writes");
    if (copy.from_device) arena().need(from, copy.bytes, "a copy reads");
    if (checker != nullptr && copy.from_device) checker->device_reads(from, copy.bytes);
    std::memmove(to, from, copy.bytes);
    if (checker != nullptr && copy.to_device) checker->device_writes(to, copy.bytes);
  }
}

bool kind_fits(cudaMemcpyKind kind, const Rows& copy) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !copy.to_device && !copy.from_device;
    case cudaMemcpyHostToDevice:
      return copy.to_device && !copy.from_device;
    case cudaMemcpyDeviceToHost:
      return !copy.to_device && copy.from_device;
    case cudaMemcpyDeviceToDevice:
      return copy.to_device && copy.from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// The host's bytes as they are now.
std::shared_ptr<char[]> snapshot(const Rows& copy) {
  std::shared_ptr<char[]> bytes(new char[copy.bytes * copy.rows]);
  for (size_t row = 0; row < copy.rows; ++row)
    std::memcpy(bytes.get() + row * copy.bytes, copy.from + row * copy.from_pitch, copy.bytes);
  return bytes;
}

cudaError_t issue_copy(Rows copy, cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  if (const cudaError_t error = need_device(); error != cudaSuccess) return error;
  copy.to_device = arena().holds(copy.to);
  copy.from_device = arena().holds(copy.from);
  if (copy.bytes == 0 || copy.rows == 0) return cudaSuccess;
  if (!kind_fits(kind, copy)) return cudaErrorInvalidValue;
  const bool reads_pageable = !copy.from_device && !is_pinned(copy.from);
  const bool writes_pageable = !copy.to_device && !is_pinned(copy.to);
  if (waits || reads_pageable || writes_pageable)
    if (capturing(stream) || waits)
      if (const cudaError_t error = refuse_while_capturing(); error != cudaSuccess) return error;
  std::shared_ptr<char[]> kept;
  if (reads_pageable && copy.to_device) {
    kept = snapshot(copy);
    copy.from = kept.get();
    copy.from_pitch = copy.bytes;
  }
  const cudaError_t error = issue(stream, [copy, kept] { copy_rows(copy); });
  const bool between_devices =
      copy.to_device && copy.from_device;  // for which the host never waits
  if (error == cudaSuccess && (writes_pageable || (waits && !between_devices)))
    queue_of(stream)->run_all();
  return error;
}

Rows one_row(void* to, const void* from, size_t bytes) {
  return {
      static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1, false, false};
}

cudaError_t issue_fill(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = need_device(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  return issue(stream, [=] {
    arena().need(to, bytes, "cudaMemset writes");
    std::memset(to, value, bytes);
    if (checker != nullptr) checker->device_writes(to, bytes);
  });
}

}  // namespace
}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(runtime_mutex());
  return remember(issue_copy(one_row(to, from, bytes), kind, nullptr, true));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return remember(issue_copy(one_row(to, from, bytes), kind, stream, false));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (width > to_pitch || width > from_pitch) return remember(cudaErrorInvalidPitchValue);
  const Rows rows{static_cast<char*>(to),
                  to_pitch,
                  static_cast<const char*>(from),
                  from_pitch,
                  width,
                  height,
                  false,
                  false};
  return remember(issue_copy(rows, kind, stream, false));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return remember(issue_fill(to, value, bytes, stream));
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  return remember(issue_fill(to, value, bytes, nullptr));
}

}  // extern "C"
