// How the CPU kernels share work among threads: contiguous ranges, always cut the same way for the
// same sizes and thread count.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "tensor/workspace.h"

namespace linea::cpu {

// Below this many simple operations a parallel region costs more than it saves.
inline constexpr int64_t kGrain = 16384;

// body(first, last) over [0, count) in one range a thread; `cost` is the work of one item in simple
// operations.
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
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    const int64_t first = count * part / parts, last = count * (part + 1) / parts;
    if (first < last) body(first, last);
  }
}

// body(item, thread) over [0, count), handed out one by one; for items that are large and alike, of
// `cost` simple operations each.
template <typename Body>
void parallel_items(const Context& ctx, int64_t count, const Body& body, int64_t cost = kGrain) {
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
