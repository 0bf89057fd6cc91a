// Device memory: one shared pool, and separate pools for captured graphs.
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/device.h"

namespace linea::cuda {
namespace {

cudaMemPool_t driver_pool() {
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, default_queue().device),
             "querying the memory pool");
  return pool;
}

// Synchronizes the device, then returns freed blocks to the driver, for other sizes and programs.
void trim() {
  check_cuda(cudaStreamSynchronize(default_queue().stream), "synchronizing the device");
  check_cuda(cudaMemPoolTrimTo(driver_pool(), 0), "trimming the memory pool");
}

void release_shared_cache();

thread_local CachingAllocator* current = nullptr;  // null: the shared pool

void* take(size_t bytes) {
  // A captured allocation would belong to the graph.
  if (default_queue().recording) refuse("memory cannot be allocated during graph capture");
  void* block = nullptr;
  cudaError_t error = cudaMallocAsync(&block, bytes, default_queue().stream);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    if (current != nullptr) release_shared_cache();  // the pool has released its own
    trim();
    error = cudaMallocAsync(&block, bytes, default_queue().stream);
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_cuda(error, "allocating device memory");
  return block;
}

// Blocks freed during capture: a graph must not free memory that it does not own.
std::vector<void*>& given_back_later() {
  static auto* instance = new std::vector<void*>;
  return *instance;
}

void give_back(void* block) noexcept {
  if (!default_queue().recording) {
    cudaFreeAsync(block, default_queue().stream);
    return;
  }
  try {
    given_back_later().push_back(block);
  } catch (const std::bad_alloc&) {  // the block leaks
  }
}

// The memory that is free, or reserved by the driver for this program, at the first call; the rest
// belongs to the driver and other programs.
MemoryLimit device_memory_limit(size_t) {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "querying device memory");
  uint64_t reserved = 0, used = 0;
  check_cuda(cudaMemPoolGetAttribute(driver_pool(), cudaMemPoolAttrReservedMemCurrent, &reserved),
             "querying reserved memory");
  check_cuda(cudaMemPoolGetAttribute(driver_pool(), cudaMemPoolAttrUsedMemCurrent, &used),
             "querying used memory");
  free += reserved - used;
  // Spare memory for the driver: kernels on first use, and graphs.
  constexpr size_t kMin = size_t{64} << 20, kMax = size_t{512} << 20;
  const size_t spare = std::clamp(free / 32, kMin, kMax);
  return {free > 2 * spare ? free - spare : free, total, "the device has"};
}

// Never destroyed: tensors with static lifetime may be released after main.
struct Pools {
  CachingAllocator shared{{take, give_back, device_memory_limit}};
  std::mutex mutex;
  // All pools but the shared one; those of them not in use.
  std::vector<CachingAllocator*> own, idle;
  // of blocks from other pools than the shared one
  std::unordered_map<void*, CachingAllocator*> owners;
};
Pools& pools() {
  static Pools* instance = new Pools;
  return *instance;
}

void release_shared_cache() { pools().shared.release_cache(); }

template <typename Visit>
void each_pool(const Visit& visit) {
  visit(pools().shared);
  const std::lock_guard<std::mutex> lock(pools().mutex);
  for (CachingAllocator* pool : pools().own) visit(*pool);
}

class DeviceAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    if (current == nullptr) return pools().shared.allocate(bytes);
    void* const block = current->allocate(bytes);
    const std::lock_guard<std::mutex> lock(pools().mutex);
    pools().owners[block] = current;
    return block;
  }

  void release(void* block, size_t bytes) noexcept override {
    CachingAllocator* owner = &pools().shared;
    {
      const std::lock_guard<std::mutex> lock(pools().mutex);
      const auto found = pools().owners.find(block);
      if (found != pools().owners.end()) {
        owner = found->second;
        pools().owners.erase(found);
      }
    }
    owner->release(block, bytes);
  }

  MemoryUse use() const override {
    MemoryUse all;
    each_pool([&](const CachingAllocator& pool) {
      const MemoryUse use = pool.use();
      all.held += use.held;
      all.peak += use.peak;
      all.cached += use.cached;
    });
    return all;
  }
  MemoryLimit limit() const override { return pools().shared.limit(); }
  void reset_peak() override {
    each_pool([](CachingAllocator& pool) { pool.reset_peak(); });
  }
  // Captured graphs keep their memory.
  void release_cache() override {
    pools().shared.release_cache();
    trim();
  }
};

}  // namespace

PoolScope::PoolScope(CachingAllocator& pool) : before_(current) { current = &pool; }
PoolScope::~PoolScope() { current = before_; }

CachingAllocator& take_pool() {
  release_shared_cache();  // the limit of a pool is what is free now
  trim();
  const std::lock_guard<std::mutex> lock(pools().mutex);
  if (pools().idle.empty()) {
    pools().own.push_back(new CachingAllocator({take, give_back, device_memory_limit}));
    return *pools().own.back();
  }
  CachingAllocator* const pool = pools().idle.back();
  pools().idle.pop_back();
  pool->set_limit(0);
  return *pool;
}

void give_back_pool(CachingAllocator& pool) {
  pool.release_cache();
  const std::lock_guard<std::mutex> lock(pools().mutex);
  pools().idle.push_back(&pool);
}

void give_back_what_waited() {
  for (void* block : given_back_later()) give_back(block);
  given_back_later().clear();
}

Allocator& allocator() {
  static DeviceAllocator* instance = new DeviceAllocator;
  return *instance;
}

}  // namespace linea::cuda
