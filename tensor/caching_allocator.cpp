#include "tensor/caching_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/system.h"

namespace linea {
namespace {

constexpr size_t kAlignment = 64;
// A block of this size is taken from the system only after free blocks are returned to it.
constexpr size_t kLarge = size_t{32} << 20;

// The smallest size class of at least `bytes`: m * 2^e with m in 17..32. Exact with LINEA_NAN_FILL,
// so that the address sanitizer detects access to the first byte past the end.
size_t size_class(size_t bytes) {
#ifdef LINEA_NAN_FILL
  return std::max<size_t>(bytes, 1);
#endif
  size_t step = kAlignment;
  while (step * 32 < bytes) step *= 2;
  return std::max(kAlignment, (bytes + step - 1) / step * step);
}

// Large blocks use huge pages where available: streaming through the weights then crosses a page
// every 2 MiB instead of every 4 KiB.
void* from_system(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool large = bytes >= 2 * kHugePage;
  void* block = nullptr;
  if (posix_memalign(&block, large ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  if (large) advise_huge_pages(block, bytes / kHugePage * kHugePage);
#ifdef LINEA_NAN_FILL
  std::memset(block, 0xFF, bytes);  // a quiet NaN in every float: reading fresh memory shows
#endif
  return block;
}

}  // namespace

// null: none that is free holds `size` bytes.
void* CachingAllocator::cached_block(size_t size) {
  if (size >= source_.min_span) return spans_.take(size);
  std::vector<void*>& cached = free_[size];
  if (cached.empty()) return nullptr;
  void* const block = cached.back();
  cached.pop_back();
  return block;
}

void CachingAllocator::read_limit() {
  limit_ = source_.limit(taken());
  taken_at_reading_ = taken();
}

// The limit as it is now, where it was lower before.
bool CachingAllocator::exceeds_limit(size_t bytes) {
  if (bytes > limit_.bytes && reads_limit_) read_limit();
  return bytes > limit_.bytes;
}

// Free spans that are too small for a large request stay free while it takes new memory: where they
// are as large together, they are given back first. A step of `linea train --task copy --length 128
// --layers 1 --dim 16 --heads 2 --ffn 32 --batch 5000` then takes 503 instead of 674 MB. Sizes
// repeat from step to step, so that later steps take and give back nothing.
void* CachingAllocator::allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  const Lock lock(mutex_);
  if (fail_in_ > 0 && --fail_in_ == 0) out_of_memory(bytes);
  if (exceeds_limit(use_.held + size)) out_of_memory(bytes);
  void* block = cached_block(size);
  if (block != nullptr) {
    use_.cached -= size;
  } else {
    if (reads_limit_ && taken() + size > taken_at_reading_ + source_.limit_interval) read_limit();
    // Free blocks are the program's still: they go first. What remains are parts of segments in use.
    const bool in_pieces = size >= std::max(kLarge, source_.min_span) && use_.cached >= size;
    if (in_pieces || taken() + size > limit_.bytes) release_free_blocks();
    if (exceeds_limit(taken() + size)) out_of_memory(bytes);
    block = source_.take(size);
    if (block == nullptr && use_.cached > 0) {
      release_free_blocks();
      block = source_.take(size);
    }
    if (block == nullptr) out_of_memory(bytes);
    try {
      if (size >= source_.min_span) spans_.add(block, size);
    } catch (...) {
      source_.give_back(block);
      throw;
    }
  }
  use_.held += size;
  use_.peak = std::max(use_.peak, use_.held);
  return block;
}

void CachingAllocator::release(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  const size_t size = size_class(bytes);
  const Lock lock(mutex_);
  use_.held -= size;
#ifdef LINEA_NAN_FILL
  source_.give_back(block);  // so that the address sanitizer sees a use after release
#else
  use_.cached += size;
  if (size >= source_.min_span) {
    spans_.release(block);
    return;
  }
  try {
    free_[size].push_back(block);
  } catch (const std::bad_alloc&) {
    use_.cached -= size;
    source_.give_back(block);
  }
#endif
}

void CachingAllocator::release_free_blocks() {
  if (keeps_free_blocks_) return;
  for (auto& [size, blocks] : free_) {
    for (void* block : blocks) source_.give_back(block);
    use_.cached -= size * blocks.size();
    blocks.clear();
  }
  use_.cached -= spans_.give_back_free(source_.give_back);
}

void CachingAllocator::out_of_memory(size_t bytes) const {
  throw OutOfMemory({bytes, current_memory_part(), MemoryBreakdown::take(use_.held), limit_});
}

CachingAllocator& cpu_allocator() {
#ifdef LINEA_NAN_FILL  // where nothing is cached
  constexpr size_t kMinSpan = SIZE_MAX;
#else
  constexpr size_t kMinSpan = size_t{128} << 10;
#endif
  constexpr size_t kInterval = size_t{64} << 20;
  static CachingAllocator* instance = new CachingAllocator(
      {from_system, [](void* block) noexcept { std::free(block); },
       [](size_t taken) { return machine_memory(taken); }, kMinSpan, kInterval});
  return *instance;
}

}  // namespace linea
