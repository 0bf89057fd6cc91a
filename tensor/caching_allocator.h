// An allocator that caches released blocks, so that training steps after the first allocate nothing
// from the system: in size classes (an eighth of a power of two apart), large ones of a CPU as spans
// that other sizes may take. One for each device.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensor/memory.h"
#include "tensor/memory_report.h"
#include "tensor/span_pool.h"

namespace linea {

// Source of blocks. With LINEA_NAN_FILL `take` fills them with NaN.
struct MemorySource {
  void* (*take)(size_t bytes);  // null: out of memory
  void (*give_back)(void* block) noexcept;
  MemoryLimit (*limit)(size_t taken);  // `taken`: bytes that were taken and not given back
  size_t min_span = SIZE_MAX;          // blocks of this size and above may be cut
  // Bytes taken between two readings of the limit, which other programs lower; SIZE_MAX: it is
  // read once.
  size_t limit_interval = SIZE_MAX;
};

class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(const MemorySource& source)
      : source_(source), limit_(source.limit(0)) {}

  void* allocate(size_t bytes) override;
  void release(void* block, size_t bytes) noexcept override;

  MemoryUse use() const override {
    const Lock lock(mutex_);
    return use_;
  }
  void reset_peak() override {
    const Lock lock(mutex_);
    use_.peak = use_.held;
  }
  void release_cache() override {
    const Lock lock(mutex_);
    release_free_blocks();
  }
  MemoryLimit limit() const override {
    const Lock lock(mutex_);
    return reads_limit_ ? source_.limit(taken()) : limit_;
  }
  // While `keeps`, free blocks stay: a captured graph writes them.
  void keep_free_blocks(bool keeps) {
    const Lock lock(mutex_);
    keeps_free_blocks_ = keeps;
  }
  // 0: the source's
  void set_limit(size_t bytes) {
    const Lock lock(mutex_);
    reads_limit_ = bytes == 0 && source_.limit_interval != SIZE_MAX;
    limit_ = bytes == 0 ? source_.limit(taken()) : MemoryLimit{bytes, bytes, "the limit is"};
  }
  // For tests: the count-th allocation from now fails as if memory had run out; 0: none.
  void fail_at(int64_t count) {
    const Lock lock(mutex_);
    fail_in_ = count;
  }

 private:
  using Lock = std::lock_guard<std::mutex>;
  size_t taken() const { return use_.held + use_.cached; }
  bool exceeds_limit(size_t bytes);
  void read_limit();
  void* cached_block(size_t size);
  void release_free_blocks();
  [[noreturn]] void out_of_memory(size_t bytes) const;

  const MemorySource source_;
  mutable std::mutex mutex_;
  MemoryUse use_;
  MemoryLimit limit_;
  bool reads_limit_ = source_.limit_interval != SIZE_MAX;
  size_t taken_at_reading_ = 0;
  int64_t fail_in_ = 0;
  bool keeps_free_blocks_ = false;
  std::unordered_map<size_t, std::vector<void*>> free_;  // by size class
  SpanPool spans_;
};

// The CPU's. Never destroyed: tensors with static lifetime may be released after main.
CachingAllocator& cpu_allocator();

}  // namespace linea
