#include "tensor/cpu/small_gemm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tensor/bfloat16.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/simd.h"

namespace linea::cpu {
namespace {

constexpr int kBytes = kVectorBytes;
// Rows of a tile; its sums, two vectors each, take half of the registers.
constexpr int kRows = kVectorRegisters == 32 ? 8 : 4;

// A vector of numbers. As a deduced type it would lose its alignment, that of T, in clang.
template <typename T, int Bytes>
using Vector = typename VectorOf<T, Bytes>::type;

// A vector loaded from b as numbers of T; bf16 are the upper halves of floats.
template <typename T, int Bytes, typename W>
void load(const W* b, Vector<T, Bytes>& to) {
  using V = Vector<T, Bytes>;
  constexpr int kCount = sizeof(V) / sizeof(T);
  if constexpr (std::is_same_v<T, W>) {
    to = *reinterpret_cast<const V*>(b);
  } else if constexpr (kCount == 1) {
    to = T(*b);
  } else {
    using Words = typename VectorOf<uint32_t, 4 * kCount>::type;
    using Floats = typename VectorOf<float, 4 * kCount>::type;
    const auto& halves = *reinterpret_cast<const typename VectorOf<uint16_t, 2 * kCount>::type*>(b);
    const Words words = __builtin_convertvector(halves, Words) << 16;
    to = __builtin_convertvector(reinterpret_cast<const Floats&>(words), V);
  }
}

// sum += b a with one rounding where the processor has it, which the compiler does by itself for
// vectors alone: it may vectorize a loop over numbers as products first, then sums.
template <typename T, int Bytes>
void add_product(const Vector<T, Bytes>& b, T a, Vector<T, Bytes>& sum) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  if constexpr (Bytes == sizeof(T)) {
    sum = std::fma(b, a, sum);
    return;
  }
#endif
  sum += b * a;
}

// C [Rows, Vectors], vectors of `Bytes`.
template <typename T, int Bytes, int Rows, int Vectors, typename W>
void tile(int64_t inner, const Operand<T>& a, const W* b, int64_t ldb, T* c, int64_t ldc,
          bool add) {
  using V = Vector<T, Bytes>;
  constexpr int kWidth = Bytes / static_cast<int>(sizeof(T));
  alignas(Bytes) V sums[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) sums[i][j] = V{};
  for (int64_t k = 0; k < inner; ++k) {
    alignas(Bytes) V from_b[Vectors];
    for (int j = 0; j < Vectors; ++j) load<T, Bytes>(b + k * ldb + j * kWidth, from_b[j]);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const T from_a = a.data[i * a.row + k * a.column];
      for (int j = 0; j < Vectors; ++j) add_product<T, Bytes>(from_b[j], from_a, sums[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) {
      V& to = *reinterpret_cast<V*>(c + i * ldc + j * kWidth);
      to = add ? to + sums[i][j] : sums[i][j];
    }
}

// All rows of one panel of columns.
template <typename T, int Bytes, int Vectors, typename W>
void panel(int64_t rows, int64_t inner, Operand<T> a, const W* b, int64_t ldb, T* c, int64_t ldc,
           bool add) {
  const auto some = [&](auto count) {
    constexpr int kCount = decltype(count)::value;
    tile<T, Bytes, kCount, Vectors>(inner, a, b, ldb, c, ldc, add);
    a.data += kCount * a.row;
    c += kCount * ldc;
    rows -= kCount;
  };
  while (rows >= kRows) some(std::integral_constant<int, kRows>{});
  if (rows >= 4) some(std::integral_constant<int, 4>{});
  if (rows >= 2) some(std::integral_constant<int, 2>{});
  if (rows >= 1) some(std::integral_constant<int, 1>{});
}

}  // namespace

template <typename T>
void small_gemm(int64_t rows, int64_t cols, int64_t inner, Operand<T> a, const T* b, int64_t ldb,
                T* c, int64_t ldc, bool add) {
  if constexpr (!kRoundsBySize) return tile_gemm(rows, cols, inner, a, b, ldb, c, ldc, add);
  if (rows == 0 || cols == 0) return;
  const bool transpose = a.column != 1 || a.row < inner;
  const int64_t lda = std::max<int64_t>(transpose ? a.column : a.row, 1);
  // One row of b may be given as the transpose of a column, which has a smaller distance.
  blas_gemm(transpose, false, rows, cols, inner, T(1), a.data, lda, b, std::max(ldb, cols),
            add ? T(1) : T(0), c, ldc);
}

template <typename T, typename W>
void tile_gemm(int64_t rows, int64_t cols, int64_t inner, Operand<T> a, const W* b, int64_t ldb,
               T* c, int64_t ldc, bool add) {
  const auto panels = [&](auto bytes, auto vectors) {
    constexpr int kVector = decltype(bytes)::value, kVectors = decltype(vectors)::value;
    constexpr int64_t kWidth = kVectors * kVector / static_cast<int64_t>(sizeof(T));
    for (; cols >= kWidth; cols -= kWidth) {
      panel<T, kVector, kVectors>(rows, inner, a, b, ldb, c, ldc, add);
      b += kWidth;
      c += kWidth;
    }
  };
  constexpr int kHalf = std::max(16, kBytes / 2);
  panels(std::integral_constant<int, kBytes>{}, std::integral_constant<int, 2>{});
  panels(std::integral_constant<int, kBytes>{}, std::integral_constant<int, 1>{});
  panels(std::integral_constant<int, kHalf>{}, std::integral_constant<int, 1>{});
  panels(std::integral_constant<int, 16>{}, std::integral_constant<int, 1>{});
  panels(std::integral_constant<int, static_cast<int>(sizeof(T))>{},
         std::integral_constant<int, 1>{});
}

// 4 x 4 at a time: interleave pairs of rows, then pairs of the results.
template <typename T>
void transpose(int64_t rows, int64_t cols, const T* x, int64_t ldx, T* y, int64_t ldy) {
  using V = typename VectorOf<T, 4 * static_cast<int>(sizeof(T))>::type;
  const auto from = [&](int64_t i, int64_t j) {
    return reinterpret_cast<const V*>(x + i * ldx + j);
  };
  const auto to = [&](int64_t j, int64_t i) { return reinterpret_cast<V*>(y + j * ldy + i); };
  const int64_t whole_rows = rows / 4 * 4, whole_cols = cols / 4 * 4;
  for (int64_t i = 0; i < whole_rows; i += 4) {
    for (int64_t j = 0; j < whole_cols; j += 4) {
      const V a = *from(i, j), b = *from(i + 1, j), c = *from(i + 2, j), d = *from(i + 3, j);
      const V ab_low = LINEA_SHUFFLE(a, b, 0, 4, 1, 5), ab_high = LINEA_SHUFFLE(a, b, 2, 6, 3, 7);
      const V cd_low = LINEA_SHUFFLE(c, d, 0, 4, 1, 5), cd_high = LINEA_SHUFFLE(c, d, 2, 6, 3, 7);
      *to(j, i) = LINEA_SHUFFLE(ab_low, cd_low, 0, 1, 4, 5);
      *to(j + 1, i) = LINEA_SHUFFLE(ab_low, cd_low, 2, 3, 6, 7);
      *to(j + 2, i) = LINEA_SHUFFLE(ab_high, cd_high, 0, 1, 4, 5);
      *to(j + 3, i) = LINEA_SHUFFLE(ab_high, cd_high, 2, 3, 6, 7);
    }
    for (int64_t j = whole_cols; j < cols; ++j)
      for (int64_t r = i; r < i + 4; ++r) y[j * ldy + r] = x[r * ldx + j];
  }
  for (int64_t i = whole_rows; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) y[j * ldy + i] = x[i * ldx + j];
}

#define LINEA_INSTANTIATE(T)                                                                      \
  template void small_gemm(int64_t, int64_t, int64_t, Operand<T>, const T*, int64_t, T*, int64_t, \
                           bool);                                                                 \
  template void tile_gemm(int64_t, int64_t, int64_t, Operand<T>, const T*, int64_t, T*, int64_t,  \
                          bool);                                                                  \
  template void tile_gemm(int64_t, int64_t, int64_t, Operand<T>, const BFloat16*, int64_t, T*,    \
                          int64_t, bool);                                                         \
  template void transpose(int64_t, int64_t, const T*, int64_t, T*, int64_t);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu
