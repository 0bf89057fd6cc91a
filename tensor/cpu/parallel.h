// How CPU kernels divide work among threads: contiguous ranges that depend only on the sizes and
// the number of threads. Thread t gets the t-th part of the rows, the heads, the strips of a product,
// so it finds in its caches what it wrote in the operation before.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "base/shares.h"
#include "tensor/workspace.h"

namespace linea::cpu {

// Below this many simple operations a parallel region costs more than it saves.
inline constexpr int64_t kGrain = 16384;

// Inside of a region, one of a single thread included: its body starts no others.
inline bool in_region() { return omp_get_level() > 0; }

// Threads for `count` items of `cost` simple operations; at most one: no region.
inline int useful_threads(const Context& ctx, int64_t count, int64_t cost) {
  const int64_t useful = count * std::max<int64_t>(cost, 1) / kGrain;
  return in_region() ? 1 : static_cast<int>(std::min<int64_t>({ctx.threads, count, useful}));
}

// body(first, last) over [0, count), one range for each thread; `cost`: simple operations for one
// item.
template <typename Body>
void parallel_ranges(const Context& ctx, int64_t count, int64_t cost, const Body& body) {
  const int threads = useful_threads(ctx, count, cost);
  if (threads <= 1) return body(int64_t{0}, count);
  on_team(threads, [&](int64_t thread) {
    const int64_t team = omp_get_num_threads();
    const int64_t first = count * thread / team, last = count * (thread + 1) / team;
    if (first < last) body(first, last);
  });
}

// body(item) over [0, count) in such ranges.
template <typename Body>
void parallel_rows(const Context& ctx, int64_t count, int64_t cost, const Body& body) {
  parallel_ranges(ctx, count, cost, [&](int64_t first, int64_t last) {
    for (int64_t item = first; item < last; ++item) body(item);
  });
}

// body(item, thread) over [0, count), in shares; for large items of equal size, `cost` simple
// operations each (kGrain: each is worth a thread).
template <typename Body>
void parallel_items(const Context& ctx, int64_t count, int64_t cost, const Body& body) {
  share_items(count, useful_threads(ctx, count, cost), body);
}

// A stack of arrays in one thread's workspace, released together.
template <typename T>
class Arena {
 public:
  explicit Arena(T* data) : next_(data) {}
  T* take(int64_t count) {
    T* result = next_;
    next_ += count;
    return result;
  }
  bool* take_flags(int64_t count) { return reinterpret_cast<bool*>(take(count)); }

 private:
  T* next_;
};

// y[i] = f(i) for i < n.
template <typename T, typename F>
void parallel_map(const Context& ctx, T* y, int64_t n, int64_t cost, const F& f) {
  parallel_ranges(ctx, n, cost, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = f(i);
  });
}

// parallel_items whose body(item, arena) has `each` elements of its thread's memory.
template <typename T, typename Body>
void parallel_arenas(const Context& ctx, int64_t count, int64_t cost, int64_t each,
                     const Body& body) {
  const Workspace<T> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, count, cost, [&](int64_t item, int thread) {
    body(item, Arena<T>(workspace.data() + thread * each));
  });
}

// body(row, sums) over R rows, which adds to its `sums` [width]; total = the sums of all rows. Rows are
// summed in 64 fixed groups, then the groups in order: the same bits at any number of threads.
template <typename T, typename Body>
void sum_over_rows(const Context& ctx, int64_t R, int64_t width, int64_t cost, T* total,
                   const Body& body) {
  const int64_t groups = std::min<int64_t>(64, std::max<int64_t>(R, 1));
  const Workspace<T> partial(ctx, groups * width);
  parallel_rows(ctx, groups, (R / groups + 1) * cost, [&](int64_t group) {
    T* const sums = partial.data() + group * width;
    std::fill_n(sums, width, T(0));
    for (int64_t row = R * group / groups; row < R * (group + 1) / groups; ++row) body(row, sums);
  });
  std::fill_n(total, width, T(0));
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t c = 0; c < width; ++c) total[c] += partial.data()[group * width + c];
}

}  // namespace linea::cpu
