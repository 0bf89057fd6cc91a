// An allocator that caches released blocks in size classes (an eighth of a power of two apart), so
// that training steps after the first allocate nothing from the system. One for each device.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensor/memory.h"
#include "tensor/memory_report.h"

namespace linea {

// Source of blocks. With LINEA_NAN_FILL `take` fills them with NaN.
struct MemorySource {
  void* (*take)(size_t bytes);  // null: out of memory
  void (*give_back)(void* block) noexcept;
  MemoryLimit (*limit)();
};

class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(const MemorySource& source) : source_(source), limit_(source.limit()) {}

  void* allocate(size_t bytes) override;
  void release(void* block, size_t bytes) noexcept override;

  MemoryUse use() const;
  void reset_peak();
  void release_cache();
  MemoryLimit limit() const;
  void set_limit(size_t bytes);  // 0: the source's
  // For tests: the count-th allocation from now fails; 0: none.
  void fail_at(int64_t count);
  // Blocks ever taken from the source or returned to it.
  int64_t source_calls() const;

 private:
  void release_free_blocks();
  [[noreturn]] void out_of_memory(size_t bytes) const;

  const MemorySource source_;
  mutable std::mutex mutex_;
  MemoryUse use_;
  MemoryLimit limit_;
  int64_t fail_in_ = 0, source_calls_ = 0;
  std::unordered_map<size_t, std::vector<void*>> free_;
};

}  // namespace linea
