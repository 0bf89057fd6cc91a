#include "tensor/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "tensor/memory_report.h"

namespace linea {
namespace {

constexpr size_t kAlignment = 64;

// The smallest size class that holds `bytes`: m * 2^e with m in 8..15. Exact in builds that look for
// misuse, so that the address sanitizer sees the first byte past the end.
size_t size_class(size_t bytes) {
#ifdef LINEA_NAN_FILL
  return std::max<size_t>(bytes, 1);
#endif
  size_t step = kAlignment;
  while (step * 8 < bytes) step *= 2;
  if (step > kAlignment) step /= 2;
  while (step * 16 < bytes) step *= 2;
  return std::max(kAlignment, (bytes + step - 1) / step * step);
}

// Large blocks lie on huge pages where the system has them: a stream through the weights then crosses a page every
// 2 MiB, not every 4 KiB.
void* from_system(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool large = bytes >= 2 * kHugePage;
  void* block = nullptr;
  if (posix_memalign(&block, large ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  if (large) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice: where refused, nothing is lost
  return block;
}

class CpuAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    const size_t size = size_class(bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fail_in_ > 0 && --fail_in_ == 0) out_of_memory(bytes);
    if (use_.held + size > limit_.bytes) out_of_memory(bytes);
    void* block = nullptr;
    std::vector<void*>& kept = free_[size];
    if (!kept.empty()) {
      block = kept.back();
      kept.pop_back();
      use_.cached -= size;
    } else {
      if (use_.held + use_.cached + size > limit_.bytes) trim();  // free blocks are the program's still
      block = from_system(size);
      if (block == nullptr && use_.cached > 0) {
        trim();
        block = from_system(size);
      }
      if (block == nullptr) out_of_memory(bytes);
    }
    use_.held += size;
    use_.peak = std::max(use_.peak, use_.held);
#ifdef LINEA_NAN_FILL
    std::memset(block, 0xFF, size);  // a quiet NaN in every float: reading fresh memory shows
#endif
    return block;
  }

  void release(void* block, size_t bytes) noexcept override {
    if (block == nullptr) return;
    const size_t size = size_class(bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    use_.held -= size;
#ifdef LINEA_NAN_FILL
    std::free(block);  // so that the address sanitizer sees a use after release
#else
    try {
      free_[size].push_back(block);
      use_.cached += size;
    } catch (const std::bad_alloc&) {
      std::free(block);
    }
#endif
  }

  void trim() {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) std::free(block);
      blocks.clear();
    }
    use_.cached = 0;
  }

  std::mutex mutex_;
  MemoryUse use_;
  // A system that promises more memory than it has would kill us, or crawl, when it is used.
  MemoryLimit limit_ = machine_memory();
  int64_t fail_in_ = 0;  // allocations until one fails, for tests; 0: none does

 private:
  [[noreturn]] void out_of_memory(size_t bytes) {
    throw OutOfMemory({bytes, memory_part_at_work(), MemoryCensus::take(use_.held), limit_});
  }

  std::unordered_map<size_t, std::vector<void*>> free_;
};

// Never destroyed: tensors with static lifetime may be released after main.
CpuAllocator& allocator() {
  static CpuAllocator* instance = new CpuAllocator;
  return *instance;
}

}  // namespace

Allocator& cpu_allocator() { return allocator(); }

MemoryUse cpu_memory() {
  const std::lock_guard<std::mutex> lock(allocator().mutex_);
  return allocator().use_;
}

void reset_cpu_peak() {
  const std::lock_guard<std::mutex> lock(allocator().mutex_);
  allocator().use_.peak = allocator().use_.held;
}

void release_cpu_cache() {
  const std::lock_guard<std::mutex> lock(allocator().mutex_);
  allocator().trim();
}

void set_cpu_memory_limit(size_t bytes) {
  const std::lock_guard<std::mutex> lock(allocator().mutex_);
  allocator().limit_ = bytes == 0 ? machine_memory() : MemoryLimit{bytes, bytes, "the limit is"};
}

MemoryLimit cpu_memory_limit() {
  const std::lock_guard<std::mutex> lock(allocator().mutex_);
  return allocator().limit_;
}

void fail_cpu_allocation_at(int64_t count) {
  const std::lock_guard<std::mutex> lock(allocator().mutex_);
  allocator().fail_in_ = count;
}

}  // namespace linea
