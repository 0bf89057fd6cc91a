// Products of rows and keys of a chunk, [rows, keys], in bands (tensor/cpu/chunk_products.h). A
// chunk is a Chunk, or a type with its bounds.
#pragma once

#include "tensor/cpu/chunk_products.h"

namespace linea::cpu {

// body(first row, rows, keys seen by the last of them)
template <typename AChunk, typename Body>
void each_band(const AChunk& chunk, const Body& body) {
  for (int64_t first = 0; first < chunk.rows; first += kBand) {
    const int64_t rows = std::min(kBand, chunk.rows - first);
    body(first, rows, chunk.seen(first + rows - 1));
  }
}

// scores = x z^T, rows of `inner`; arena: keys x inner.
template <typename AChunk, typename T>
void band_products(const AChunk& chunk, int64_t inner, const Operand<T>& x, const Operand<T>& z,
                   T* scores, Arena<T> arena) {
  const int64_t K = chunk.keys;
  constexpr int64_t kWidest = 16;  // a partial vector costs as much as a full one
  multiply_bands(chunk.rounded, {chunk.rows, K, inner}, x, transposed(z.data, z.row), {scores, K},
                 false, arena, kBand, [&](int64_t first, int64_t rows) {
                   const int64_t seen = chunk.seen(first + rows - 1);
                   return Extent{0, inner, std::min((seen + kWidest - 1) / kWidest * kWidest, K),
                                 chunk.from(first) / kWidest * kWidest};
                 });
}

// y_i += sum_j scores_ij x_j over the keys j that i sees, rows of `width`
template <typename AChunk, typename T>
void add_past(const AChunk& chunk, int64_t width, const T* scores, const Operand<T>& x, T* y,
              int64_t ldy) {
  multiply_bands(chunk.rounded, {chunk.rows, width, chunk.keys}, plain(scores, chunk.keys), x,
                 {y, ldy}, true, Arena<T>(nullptr), kBand, [&](int64_t first, int64_t rows) {
                   return Extent{chunk.from(first), chunk.seen(first + rows - 1), width};
                 });
}

// y_j += sum_i scores_ij x_i over the rows i that see j
template <typename AChunk, typename T>
void add_future(const AChunk& chunk, int64_t width, const T* scores, const Operand<T>& x, T* y,
                int64_t ldy) {
  multiply_bands(
      chunk.rounded, {chunk.keys, width, chunk.rows}, transposed(scores, chunk.keys), x, {y, ldy},
      true, Arena<T>(nullptr), kBand, [&](int64_t first, int64_t keys) {
        const int64_t end = (chunk.end_row(first + keys - 1) + kBand - 1) / kBand * kBand;
        return Extent{chunk.first_row(first) / kBand * kBand, std::min(end, chunk.rows), width};
      });
}

// Zeroes the entries of a [rows, keys] matrix that rows do not see, as far as the sums above read
// them.
template <typename AChunk, typename T>
void hide_unseen(const AChunk& chunk, T* scores) {
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    if (chunk.from(first + rows - 1) == 0 && chunk.seen(first) == chunk.keys) return;
    for (int64_t i = first; i < first + rows; ++i) {
      T* row = scores + i * chunk.keys;
      std::fill(row + std::max<int64_t>(chunk.from(first) - kBand, 0), row + chunk.from(i), T(0));
      std::fill(row + chunk.seen(i), row + std::min(seen + kBand, chunk.keys), T(0));
    }
  });
}

}  // namespace linea::cpu
