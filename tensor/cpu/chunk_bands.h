// Products of rows and keys of a chunk, [rows, keys], in bands: of the entries that rows do not see
// only the corners of a band's blocks are computed, and no product reads more.
#pragma once

#include "tensor/cpu/chunk_rows.h"
#include "tensor/cpu/small_gemm.h"

namespace linea::cpu {

inline constexpr int64_t kBand = 8;

// body(first row, rows, keys seen by the last of them)
template <typename Body>
void each_band(const Chunk& chunk, const Body& body) {
  for (int64_t first = 0; first < chunk.rows; first += kBand) {
    const int64_t rows = std::min(kBand, chunk.rows - first);
    body(first, rows, chunk.seen(first + rows - 1));
  }
}

// scores = x z^T, rows of `inner`; arena: keys x inner.
template <typename T>
void band_products(const Chunk& chunk, int64_t inner, const ValueRows<T>& x, const ValueRows<T>& z,
                   T* scores, Arena<T> arena) {
  const int64_t K = chunk.keys;
  T* columns = arena.take(inner * K);
  transpose(K, inner, z.data, z.stride, columns, K);
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    constexpr int64_t kWidest = 16;  // a partial vector costs as much as a full one
    const int64_t keys = std::min((seen + kWidest - 1) / kWidest * kWidest, K);
    small_gemm(rows, keys, inner, plain(x.data + first * x.stride, x.stride), columns, K,
               scores + first * K, K, false);
  });
}

// y_i += sum_j scores_ij x_j over the keys j that i sees, rows of `width`
template <typename T>
void add_past(const Chunk& chunk, int64_t width, const T* scores, const ValueRows<T>& x, T* y,
              int64_t ldy) {
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    small_gemm(rows, width, seen, plain(scores + first * chunk.keys, chunk.keys), x.data, x.stride,
               y + first * ldy, ldy, true);
  });
}

// y_j += sum_i scores_ij x_i over the rows i that see j
template <typename T>
void add_future(const Chunk& chunk, int64_t width, const T* scores, const ValueRows<T>& x, T* y,
                int64_t ldy) {
  for (int64_t first = 0; first < chunk.keys; first += kBand) {
    const int64_t keys = std::min(kBand, chunk.keys - first);
    const int64_t row = chunk.first_row(first) / kBand * kBand;  // whole bands
    small_gemm(keys, width, chunk.rows - row,
               transposed(scores + row * chunk.keys + first, chunk.keys), x.data + row * x.stride,
               x.stride, y + first * ldy, ldy, true);
  }
}

// Zeroes the entries of a [rows, keys] matrix that rows do not see, as far as the sums above read
// them.
template <typename T>
void hide_unseen(const Chunk& chunk, T* scores) {
  each_band(chunk, [&](int64_t first, int64_t rows, int64_t seen) {
    for (int64_t i = first; i < first + rows; ++i) {
      T* row = scores + i * chunk.keys;
      std::fill(row + chunk.seen(i), row + std::min(seen + kBand, chunk.keys), T(0));
    }
  });
}

}  // namespace linea::cpu
