#include "tensor/span_pool.h"

namespace linea {
namespace {

constexpr size_t kMinRest = size_t{64} << 10;  // of a span that is cut off

}  // namespace

void* SpanPool::take(size_t size) {
  const auto found = free_.lower_bound({size, nullptr});
  if (found == free_.end()) return nullptr;
  std::byte* const address = found->second;
  Span& span = spans_.at(address);
  if (span.size - size >= kMinRest) {
    const size_t rest = span.size - size;
    BySize entry = {{rest, address + size}};
    spans_.emplace(address + size, Span{rest, false, {}});
    free_.merge(entry);  // the allocations before may fail, nothing from here on
    span.size = size;
  }
  span.entry = free_.extract(found);
  return address;
}

void SpanPool::add(void* segment, size_t size) {
  auto* const address = static_cast<std::byte*>(segment);
  BySize one = {{size, address}};
  spans_.emplace(address, Span{size, true, one.extract(one.begin())});
}

// The span and its neighbor behind it as one span.
SpanPool::Position SpanPool::join_next(Position span) noexcept {
  const auto next = std::next(span);
  span->second.size += next->second.size;
  spans_.erase(next);
  return span;
}

size_t SpanPool::release(void* address) noexcept {
  auto span = spans_.find(static_cast<std::byte*>(address));
  BySize::node_type entry = std::move(span->second.entry);
  const size_t bytes = span->second.size;
  if (!span->second.starts_segment && std::prev(span)->second.is_free()) {
    span = std::prev(span);
    free_.erase({span->second.size, span->first});
    span = join_next(span);
  }
  const auto next = std::next(span);
  if (next != spans_.end() && !next->second.starts_segment && next->second.is_free()) {
    free_.erase({next->second.size, next->first});
    span = join_next(span);
  }
  entry.value() = {span->second.size, span->first};
  free_.insert(std::move(entry));
  return bytes;
}

}  // namespace linea
