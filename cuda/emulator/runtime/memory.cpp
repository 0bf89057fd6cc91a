// Synchronous and stream-ordered device memory, the memory pool, pinned host memory.
#include "cuda/emulator/runtime/memory.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime/arena.h"
#include "cuda/emulator/runtime/stream.h"
#include "cuda/emulator/settings.h"

// The only pool of the device. It just counts bytes; the arena manages the addresses.
struct CUmemPoolHandle_st {
  uint64_t used = 0, reserved = 0, threshold = 0;
  uint64_t peak_used = 0, peak_reserved = 0;

  void trim_to(uint64_t bytes) { reserved = std::max(used, std::min(reserved, bytes)); }
};

namespace linea::emulator {
namespace {

constexpr size_t kGranularity = 512;  // of allocation sizes

struct Allocation {
  size_t bytes;
  bool from_pool;
};

struct Accounting {
  std::map<const void*, Allocation> allocations;
  size_t malloc_bytes = 0;
  CUmemPoolHandle_st pool;
  std::map<const char*, size_t> pinned;
};

Accounting& accounting() {
  static Accounting instance;
  return instance;
}

size_t round_up(size_t bytes) { return (bytes + kGranularity - 1) / kGranularity * kGranularity; }

// Removes the allocation from the accounts; the caller releases its memory. Fatal if there is none.
void unregister(const void* data) {
  Accounting& all = accounting();
  const auto found = all.allocations.find(data);
  if (found == all.allocations.end())
    fatal("free of {}, which is not a live allocation of device memory", data);
  (found->second.from_pool ? all.pool.used : all.malloc_bytes) -= found->second.bytes;
  all.allocations.erase(found);
}

cudaError_t allocate(void** data, size_t bytes) {
  Accounting& all = accounting();
  *data = nullptr;
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (bytes > settings().memory ||
      all.malloc_bytes + all.pool.reserved + round_up(bytes) > settings().memory)
    return cudaErrorMemoryAllocation;
  *data = arena().allocate(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  arena().fill(*data);
  all.malloc_bytes += round_up(bytes);
  all.allocations[*data] = {round_up(bytes), false};
  return cudaSuccess;
}

// The memory is available to later operations of the stream, and filled with NaN in stream order.
cudaError_t allocate_async(void** data, size_t bytes, cudaStream_t stream) {
  Accounting& all = accounting();
  *data = nullptr;
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (is_capturing(stream)) return forbid_during_capture();
  if (bytes == 0) return cudaSuccess;
  if (bytes > settings().memory) return cudaErrorMemoryAllocation;
  const uint64_t used = all.pool.used + round_up(bytes),
                 reserved = std::max(used, all.pool.reserved);
  if (all.malloc_bytes + reserved > settings().memory) return cudaErrorMemoryAllocation;
  *data = arena().allocate(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  all.pool.used = used;
  all.pool.reserved = reserved;
  all.pool.peak_used = std::max(all.pool.peak_used, used);
  all.pool.peak_reserved = std::max(all.pool.peak_reserved, reserved);
  all.allocations[*data] = {round_up(bytes), true};
  return issue(stream, NodeKind::other, [memory = *data] { arena().fill(memory); });
}

}  // namespace

void release_unused_pool_memory() {
  CUmemPoolHandle_st& pool = accounting().pool;
  pool.trim_to(pool.threshold);
}

bool is_pinned(const void* address) {
  const auto& pinned = accounting().pinned;
  const auto* at = static_cast<const char*>(address);
  const auto next = pinned.upper_bound(at);
  return next != pinned.begin() && at < std::prev(next)->first + std::prev(next)->second;
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  return record_error(allocate(data, bytes));
}

// Synchronizes the device, like a real one.
cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  run_all_streams();
  release_unused_pool_memory();
  if (data == nullptr) return cudaSuccess;
  unregister(data);
  arena().release(data);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return record_error(allocate_async(data, bytes, stream));
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (is_capturing(stream)) return record_error(forbid_during_capture());
  if (data == nullptr) return cudaSuccess;
  unregister(data);
  return record_error(issue(stream, NodeKind::other, [data] { arena().release(data); }));
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  *total = settings().memory;
  const size_t used = accounting().malloc_bytes + accounting().pool.reserved;
  *free = used < *total ? *total - used : 0;
  return cudaSuccess;
}

// ---- the pool ----

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  if (device >= settings().devices) return record_error(cudaErrorInvalidDevice);
  *pool = &accounting().pool;
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  pool->trim_to(bytes);
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const std::lock_guard lock(runtime_mutex());
  if (attribute != cudaMemPoolAttrReleaseThreshold) return record_error(cudaErrorInvalidValue);
  pool->threshold = *static_cast<uint64_t*>(value);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const std::lock_guard lock(runtime_mutex());
  const std::map<cudaMemPoolAttr, uint64_t> values{
      {cudaMemPoolAttrReleaseThreshold, pool->threshold},
      {cudaMemPoolAttrReservedMemCurrent, pool->reserved},
      {cudaMemPoolAttrReservedMemHigh, pool->peak_reserved},
      {cudaMemPoolAttrUsedMemCurrent, pool->used},
      {cudaMemPoolAttrUsedMemHigh, pool->peak_used},
  };
  const auto found = values.find(attribute);
  if (found == values.end()) return record_error(cudaErrorInvalidValue);
  *static_cast<uint64_t*>(value) = found->second;
  return cudaSuccess;
}

// ---- pinned host memory, which kernels may access as well ----

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  const std::lock_guard lock(runtime_mutex());
  *data = nullptr;
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  if (bytes == 0) return cudaSuccess;
  if (posix_memalign(data, 4096, bytes) != 0) return record_error(cudaErrorMemoryAllocation);
  accounting().pinned[static_cast<const char*>(*data)] = bytes;
  if (checker != nullptr) checker->on_allocate(*data, bytes, true);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* data) {
  const std::lock_guard lock(runtime_mutex());
  if (data == nullptr) return cudaSuccess;
  if (const cudaError_t error = forbid_during_capture(); error != cudaSuccess)
    return record_error(error);
  run_all_streams();
  const auto found = accounting().pinned.find(static_cast<const char*>(data));
  if (found == accounting().pinned.end()) return record_error(cudaErrorInvalidValue);
  if (checker != nullptr) checker->on_free(data, found->second);
  accounting().pinned.erase(found);
  std::free(data);
  return cudaSuccess;
}

}  // extern "C"
