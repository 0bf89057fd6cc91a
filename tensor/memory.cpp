#include "tensor/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tensor/caching_allocator.h"

namespace linea {
namespace {

// Large blocks use huge pages where available: streaming through the weights then crosses a page
// every 2 MiB instead of every 4 KiB.
void* from_system(size_t bytes) {
  constexpr size_t kAlignment = 64, kHugePage = size_t{2} << 20;
  const bool large = bytes >= 2 * kHugePage;
  void* block = nullptr;
  if (posix_memalign(&block, large ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  if (large)
    madvise(block, bytes / kHugePage * kHugePage,
            MADV_HUGEPAGE);  // hint: where refused, nothing is lost
#ifdef LINEA_NAN_FILL
  std::memset(block, 0xFF, bytes);  // a quiet NaN in every float: reading fresh memory shows
#endif
  return block;
}

void to_system(void* block) noexcept { std::free(block); }

// Never destroyed: tensors with static lifetime may be released after main. A system that
// overcommits memory would kill or stall the process on use, so the limit is the machine's memory.
CachingAllocator& allocator() {
  static CachingAllocator* instance =
      new CachingAllocator({from_system, to_system, machine_memory});
  return *instance;
}

}  // namespace

Allocator& cpu_allocator() { return allocator(); }
MemoryUse cpu_memory() { return allocator().use(); }
void reset_cpu_peak() { allocator().reset_peak(); }
void release_cpu_cache() { allocator().release_cache(); }
void set_cpu_memory_limit(size_t bytes) { allocator().set_limit(bytes); }
MemoryLimit cpu_memory_limit() { return allocator().limit(); }
void fail_cpu_allocation_at(int64_t count) { allocator().fail_at(count); }

}  // namespace linea
