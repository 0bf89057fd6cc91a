#include "tensor/caching_allocator.h"

#include <algorithm>
#include <new>

namespace linea {
namespace {

constexpr size_t kAlignment = 64;

// The smallest size class of at least `bytes`: m * 2^e with m in 8..15. Exact with LINEA_NAN_FILL,
// so that the address sanitizer detects access to the first byte past the end.
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

}  // namespace

void* CachingAllocator::allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fail_in_ > 0 && --fail_in_ == 0) out_of_memory(bytes);
  if (use_.held + size > limit_.bytes) out_of_memory(bytes);
  void* block = nullptr;
  std::vector<void*>& cached = free_[size];
  if (!cached.empty()) {
    block = cached.back();
    cached.pop_back();
    use_.cached -= size;
  } else {
    if (use_.held + use_.cached + size > limit_.bytes)
      release_free_blocks();  // free blocks are the program's still
    block = source_.take(size);
    if (block == nullptr && use_.cached > 0) {
      release_free_blocks();
      block = source_.take(size);
    }
    if (block == nullptr) out_of_memory(bytes);
    ++source_calls_;
  }
  use_.held += size;
  use_.peak = std::max(use_.peak, use_.held);
  return block;
}

void CachingAllocator::release(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  const size_t size = size_class(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  use_.held -= size;
#ifdef LINEA_NAN_FILL
  source_.give_back(block);  // so that the address sanitizer sees a use after release
  ++source_calls_;
#else
  try {
    free_[size].push_back(block);
    use_.cached += size;
  } catch (const std::bad_alloc&) {
    source_.give_back(block);
  }
#endif
}

void CachingAllocator::release_free_blocks() {
  for (auto& [size, blocks] : free_) {
    for (void* block : blocks) source_.give_back(block);
    source_calls_ += static_cast<int64_t>(blocks.size());
    blocks.clear();
  }
  use_.cached = 0;
}

void CachingAllocator::out_of_memory(size_t bytes) const {
  throw OutOfMemory({bytes, current_memory_part(), MemoryBreakdown::take(use_.held), limit_});
}

MemoryUse CachingAllocator::use() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return use_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  use_.peak = use_.held;
}

void CachingAllocator::release_cache() {
  const std::lock_guard<std::mutex> lock(mutex_);
  release_free_blocks();
}

MemoryLimit CachingAllocator::limit() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return limit_;
}

void CachingAllocator::set_limit(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limit_ = bytes == 0 ? source_.limit() : MemoryLimit{bytes, bytes, "the limit is"};
}

void CachingAllocator::fail_at(int64_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fail_in_ = count;
}

int64_t CachingAllocator::source_calls() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return source_calls_;
}

}  // namespace linea
