// Memory that is cut as requests need it. A request takes the smallest free span that holds it and
// leaves the rest free; free neighbors become one span. So what one size has released serves another:
// gradients take the memory of activations that the backward pass has freed.
#pragma once

#include <cstddef>
#include <map>
#include <set>

namespace linea {

class SpanPool {
 public:
  // The smallest free span of at least `size` bytes, cut to `size` where a useful span remains; null:
  // there is none.
  void* take(size_t size);
  // A new segment, its first `size` bytes in use. Neighbors in other segments never become one span.
  void add(void* segment, size_t size);
  // Allocates nothing. Returns the bytes that become free.
  size_t release(void* span) noexcept;
  // Calls give_back(segment) for each segment that is wholly free; returns their bytes.
  template <typename GiveBack>
  size_t give_back_free(const GiveBack& give_back) {
    size_t bytes = 0;
    for (auto span = spans_.begin(); span != spans_.end();) {
      const auto next = std::next(span);
      const bool whole =
          span->second.starts_segment && (next == spans_.end() || next->second.starts_segment);
      if (whole && span->second.is_free()) {
        give_back(span->first);
        bytes += span->second.size;
        free_.erase({span->second.size, span->first});
        spans_.erase(span);
      }
      span = next;
    }
    return bytes;
  }

 private:
  using BySize = std::set<std::pair<size_t, std::byte*>>;
  struct Span {
    size_t size;
    bool starts_segment;
    BySize::node_type entry{};  // of a span in use: its entry once it is free again
    bool is_free() const { return entry.empty(); }
  };
  using Position = std::map<std::byte*, Span>::iterator;
  Position join_next(Position span) noexcept;
  std::map<std::byte*, Span> spans_;  // by address
  BySize free_;
};

}  // namespace linea
