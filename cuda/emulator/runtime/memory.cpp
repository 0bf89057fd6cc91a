// Device memory by call and by stream, the memory pool, pinned memory of the host.
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

// The one pool of the device. It keeps no memory but a count of bytes: the arena has the addresses.
struct CUmemPoolHandle_st {
  uint64_t used = 0, reserved = 0, threshold = 0;
  uint64_t most_used = 0, most_reserved = 0;

  void keep_at_most(uint64_t bytes) { reserved = std::max(used, std::min(reserved, bytes)); }
};

namespace linea::emulator {
namespace {

constexpr size_t kGrain = 512;  // of what is counted

struct Owned {
  size_t bytes;
  bool from_pool;
};

struct Holdings {
  std::map<const void*, Owned> owned;
  size_t by_call = 0;  // bytes of cudaMalloc
  CUmemPoolHandle_st pool;
  std::map<const char*, size_t> pinned;
};

Holdings& holdings() {
  static Holdings instance;
  return instance;
}

size_t counted(size_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

// Takes the allocation out of the books; it is released later. Stops unless there is one.
void forget(const void* data) {
  Holdings& all = holdings();
  const auto found = all.owned.find(data);
  if (found == all.owned.end())
    stop("{} is freed, which is no allocation of device memory, or no longer", data);
  (found->second.from_pool ? all.pool.used : all.by_call) -= found->second.bytes;
  all.owned.erase(found);
}

cudaError_t allocate_by_call(void** data, size_t bytes) {
  Holdings& all = holdings();
  *data = nullptr;
  if (const cudaError_t error = need_device(); error != cudaSuccess) return error;
  if (const cudaError_t error = refuse_while_capturing(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (bytes > settings().memory ||
      all.by_call + all.pool.reserved + counted(bytes) > settings().memory)
    return cudaErrorMemoryAllocation;
  *data = arena().allocate(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  arena().fill(*data);
  all.by_call += counted(bytes);
  all.owned[*data] = {counted(bytes), false};
  return cudaSuccess;
}

// The memory is there for what is put on the stream from now on, and full of NaN only when the
// stream comes to it.
cudaError_t allocate_on_stream(void** data, size_t bytes, cudaStream_t stream) {
  Holdings& all = holdings();
  *data = nullptr;
  if (const cudaError_t error = need_device(); error != cudaSuccess) return error;
  if (capturing(stream)) return refuse_while_capturing();
  if (bytes == 0) return cudaSuccess;
  if (bytes > settings().memory) return cudaErrorMemoryAllocation;
  const uint64_t used = all.pool.used + counted(bytes),
                 reserved = std::max(used, all.pool.reserved);
  if (all.by_call + reserved > settings().memory) return cudaErrorMemoryAllocation;
  *data = arena().allocate(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  all.pool.used = used;
  all.pool.reserved = reserved;
  all.pool.most_used = std::max(all.pool.most_used, used);
  all.pool.most_reserved = std::max(all.pool.most_reserved, reserved);
  all.owned[*data] = {counted(bytes), true};
  return issue(stream, [fresh = *data] { arena().fill(fresh); });
}

}  // namespace

void release_unused_pool_memory() {
  CUmemPoolHandle_st& pool = holdings().pool;
  pool.keep_at_most(pool.threshold);
}

bool is_pinned(const void* address) {
  const auto& pinned = holdings().pinned;
  const auto* at = static_cast<const char*>(address);
  const auto next = pinned.upper_bound(at);
  return next != pinned.begin() && at < std::prev(next)->first + std::prev(next)->second;
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  return remember(allocate_by_call(data, bytes));
}

// Waits for everything, as a real one does.
cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = need_device(); error != cudaSuccess) return remember(error);
  if (const cudaError_t error = refuse_while_capturing(); error != cudaSuccess)
    return remember(error);
  run_all_streams();
  release_unused_pool_memory();
  if (data == nullptr) return cudaSuccess;
  forget(data);
  arena().release(data);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return remember(allocate_on_stream(data, bytes, stream));
}

cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(data, bytes, stream);
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (capturing(stream)) return remember(refuse_while_capturing());
  if (data == nullptr) return cudaSuccess;
  forget(data);
  return remember(issue(stream, [data] { arena().release(data); }));
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = need_device(); error != cudaSuccess) return remember(error);
  *total = settings().memory;
  const size_t held = holdings().by_call + holdings().pool.reserved;
  *free = held < *total ? *total - held : 0;
  return cudaSuccess;
}

// ---- the pool ----

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = need_device(); error != cudaSuccess) return remember(error);
  if (device != 0) return remember(cudaErrorInvalidDevice);
  *pool = &holdings().pool;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  pool->keep_at_most(bytes);
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const std::lock_guard lock(runtime_mutex());
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      pool->threshold = *static_cast<uint64_t*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      pool->most_reserved = pool->reserved;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      pool->most_used = pool->used;
      return cudaSuccess;
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      return cudaSuccess;  // the arena reuses late
    default:
      return remember(cudaErrorInvalidValue);
  }
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const std::lock_guard lock(runtime_mutex());
  uint64_t& result = *static_cast<uint64_t*>(value);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      result = pool->threshold;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
      result = pool->reserved;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      result = pool->most_reserved;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      result = pool->used;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      result = pool->most_used;
      return cudaSuccess;
    default:
      return remember(cudaErrorInvalidValue);
  }
}

// ---- pinned memory of the host, which kernels may read and write too ----

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  const std::lock_guard lock(runtime_mutex());
  *data = nullptr;
  if (const cudaError_t error = need_device(); error != cudaSuccess) return remember(error);
  if (const cudaError_t error = refuse_while_capturing(); error != cudaSuccess)
    return remember(error);
  if (bytes == 0) return cudaSuccess;
  if (posix_memalign(data, 4096, bytes) != 0) return remember(cudaErrorMemoryAllocation);
  holdings().pinned[static_cast<const char*>(*data)] = bytes;
  if (checker != nullptr) checker->allocated(*data, bytes, true);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* data) {
  const std::lock_guard lock(runtime_mutex());
  if (data == nullptr) return cudaSuccess;
  if (const cudaError_t error = refuse_while_capturing(); error != cudaSuccess)
    return remember(error);
  run_all_streams();
  const auto found = holdings().pinned.find(static_cast<const char*>(data));
  if (found == holdings().pinned.end()) return remember(cudaErrorInvalidValue);
  if (checker != nullptr) checker->released(data, found->second);
  holdings().pinned.erase(found);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const std::lock_guard lock(runtime_mutex());
  *attributes = {};
  auto* const same = const_cast<void*>(address);
  if (arena().find(address).data != nullptr) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = same;
  } else if (is_pinned(address)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->devicePointer = attributes->hostPointer = same;
  }
  return cudaSuccess;
}

}  // extern "C"
