#include "tensor/cpu/small_gemm.h"

#include <algorithm>
#include <type_traits>

#include "tensor/cpu/vectors.h"

namespace linea::cpu {
namespace {

constexpr int kBytes = kVectorBytes;
constexpr int kRows = kVectorRegisters == 32 ? 8 : 4;  // of a tile: its sums, two vectors each, are half of the registers

// C [Rows, Vectors] of vectors of `Bytes`.
template <typename T, int Bytes, int Rows, int Vectors>
void tile(int64_t inner, const Operand<T>& a, const T* b, int64_t ldb, T* c, int64_t ldc, bool add) {
  using V = typename VectorOf<T, Bytes>::type;
  constexpr int kWidth = Bytes / static_cast<int>(sizeof(T));
  V sums[Rows][Vectors] = {};
  for (int64_t k = 0; k < inner; ++k) {
    V from_b[Vectors];
    for (int j = 0; j < Vectors; ++j) from_b[j] = *reinterpret_cast<const V*>(b + k * ldb + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const T from_a = a.data[i * a.row + k * a.column];
      for (int j = 0; j < Vectors; ++j) sums[i][j] += from_b[j] * from_a;
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Vectors; ++j) {
      V& to = *reinterpret_cast<V*>(c + i * ldc + j * kWidth);
      to = add ? to + sums[i][j] : sums[i][j];
    }
}

// All rows of one panel of columns.
template <typename T, int Bytes, int Vectors>
void panel(int64_t rows, int64_t inner, Operand<T> a, const T* b, int64_t ldb, T* c, int64_t ldc, bool add) {
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
void small_gemm(int64_t rows, int64_t cols, int64_t inner, Operand<T> a, const T* b, int64_t ldb, T* c, int64_t ldc,
                bool add) {
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
  panels(std::integral_constant<int, static_cast<int>(sizeof(T))>{}, std::integral_constant<int, 1>{});
}

template <typename T>
void transpose(int64_t rows, int64_t cols, const T* x, int64_t ldx, T* y, int64_t ldy) {
  constexpr int64_t kBlock = 16;  // a line of y is written while its lines of x are in L1
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t some = std::min(kBlock, rows - first);
    for (int64_t j = 0; j < cols; ++j) {
      const T* from = x + first * ldx + j;
      T* to = y + j * ldy + first;
      for (int64_t i = 0; i < some; ++i) to[i] = from[i * ldx];
    }
  }
}

#define LINEA_INSTANTIATE(T)                                                                                       \
  template void small_gemm(int64_t, int64_t, int64_t, Operand<T>, const T*, int64_t, T*, int64_t, bool);           \
  template void transpose(int64_t, int64_t, const T*, int64_t, T*, int64_t);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)

}  // namespace linea::cpu
