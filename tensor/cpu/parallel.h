// How CPU kernels divide work among threads: contiguous ranges that depend only on the sizes and
// the number of threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "tensor/workspace.h"

namespace linea::cpu {

// Below this many simple operations a parallel region costs more than it saves.
inline constexpr int64_t kGrain = 16384;

// body(first, last) over [0, count), one range for each thread; `cost`: simple operations for one
// item.
template <typename Body>
void parallel_ranges(const Context& ctx, int64_t count, int64_t cost, const Body& body) {
  const int64_t useful = std::max<int64_t>(1, count * std::max<int64_t>(cost, 1) / kGrain);
  const int64_t threads = std::min<int64_t>({ctx.threads, useful, std::max<int64_t>(count, 1)});
  if (threads <= 1 || omp_in_parallel()) {
    body(int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    const int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
    const int64_t first = count * thread / team, last = count * (thread + 1) / team;
    if (first < last) body(first, last);
  }
}

// body(item) over [0, count) in such ranges.
template <typename Body>
void parallel_rows(const Context& ctx, int64_t count, int64_t cost, const Body& body) {
  parallel_ranges(ctx, count, cost, [&](int64_t first, int64_t last) {
    for (int64_t item = first; item < last; ++item) body(item);
  });
}

// body(item, thread) over [0, count), scheduled one by one; for large items of equal size, `cost`
// simple operations each (kGrain: each is worth a thread).
template <typename Body>
void parallel_items(const Context& ctx, int64_t count, int64_t cost, const Body& body) {
  const int64_t useful = std::max<int64_t>(1, count * std::max<int64_t>(cost, 1) / kGrain);
  const int threads = static_cast<int>(std::min<int64_t>({ctx.threads, count, useful}));
  if (threads <= 1 || omp_in_parallel()) {
    for (int64_t item = 0; item < count; ++item) body(item, 0);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t item = 0; item < count; ++item) body(item, omp_get_thread_num());
}

}  // namespace linea::cpu
