// Neighboring elements of a row that a thread loads and stores together, 16 bytes of them where rows
// are aligned.
#pragma once

#include <initializer_list>

#include "cuda/ptx.h"
#include "tensor/element.h"

namespace linea::cuda {

template <typename T>
inline constexpr int kWideOf = 16 / sizeof(T);

// Whether rows of C elements that begin at these addresses are whole groups of 16 aligned bytes.
template <typename T>
bool rows_are_wide(int64_t C, std::initializer_list<const void*> rows) {
  bool wide = C % kWideOf<T> == 0;
  for (const void* row : rows) wide = wide && reinterpret_cast<uintptr_t>(row) % 16 == 0;
  return wide;
}

// Calls body(width), a constant: the elements of 16 bytes where rows are wide, else 1.
template <typename T, typename Body>
void with_width(bool wide, const Body& body) {
  if (wide)
    body(std::integral_constant<int, kWideOf<T>>());
  else
    body(std::integral_constant<int, 1>());
}

template <typename T, int kWidth>
struct alignas(kWidth * sizeof(T)) Elements {
  T x[kWidth];
  __device__ Accumulator<T> at(int e) const { return Accumulator<T>(x[e]); }
};
// As words of two, each of which takes one instruction to widen.
template <int kWidth>
requires(kWidth > 1) struct alignas(kWidth * 2) Elements<BFloat16, kWidth> {
  uint32_t pair[kWidth / 2];
  __device__ float at(int e) const {
    const uint32_t word = e % 2 == 0 ? pair[e / 2] << 16 : pair[e / 2] & 0xFFFF0000u;
    float x;
    memcpy(&x, &word, sizeof(x));
    return x;
  }
};

template <typename T, int kWidth>
__device__ __forceinline__ Elements<T, kWidth> load_elements(const T* from) {
  return *reinterpret_cast<const Elements<T, kWidth>*>(from);
}

template <typename T, int kWidth>
__device__ __forceinline__ void widen_elements(const Elements<T, kWidth>& from,
                                               Accumulator<T> (&to)[kWidth]) {
#pragma unroll
  for (int e = 0; e < kWidth; ++e) to[e] = from.at(e);
}

template <typename A, int kWidth, typename T>
__device__ __forceinline__ void store_elements(const A (&x)[kWidth], T* to) {
  Elements<T, kWidth> stored;
  if constexpr (std::is_same_v<T, BFloat16> && kWidth > 1) {
#pragma unroll
    for (int e = 0; e < kWidth; e += 2) stored.pair[e / 2] = to_bf16_pair(x[e], x[e + 1]);
  } else {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) stored.x[e] = T(x[e]);
  }
  *reinterpret_cast<Elements<T, kWidth>*>(to) = stored;
}

}  // namespace linea::cuda
