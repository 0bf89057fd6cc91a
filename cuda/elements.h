// Neighboring elements of a row that a thread loads and stores together, by 16 bytes where rows are
// aligned; and what is computed on such groups element by element.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "cuda/grid.h"
#include "cuda/ptx.h"
#include "tensor/element.h"
#include "tensor/formulas.h"

namespace linea::cuda {

template <typename T>
inline constexpr int kWideOf = 16 / sizeof(T);

// Whether all addresses are multiples of 16 bytes.
template <typename... T>
LINEA_HOST_DEVICE bool are_aligned(const T*... x) {
  return ((reinterpret_cast<uintptr_t>(x) % 16 == 0) && ...);
}

// Whether rows of C elements that begin at these addresses are whole groups of 16 aligned bytes.
template <typename T>
bool rows_are_wide(int64_t C, std::initializer_list<const void*> rows) {
  return C % kWideOf<T> == 0 &&
         std::all_of(rows.begin(), rows.end(), [](const void* row) { return are_aligned(row); });
}

// Calls body(width), a constant: the elements of 16 bytes where rows are wide, else 1.
template <typename T, typename Body>
void with_width(bool wide, const Body& body) {
  if (wide)
    body(std::integral_constant<int, kWideOf<T>>());
  else
    body(std::integral_constant<int, 1>());
}

// The two bf16 of a word.
__device__ __forceinline__ float lower_bf16(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float upper_bf16(uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000u);
}

template <typename T, int kWidth>
struct alignas(std::min<size_t>(kWidth * sizeof(T), 16)) Elements {
  T x[kWidth];
  __device__ Accumulator<T> at(int e) const { return Accumulator<T>(x[e]); }
};
// As words of two, each of which takes one instruction to widen.
template <int kWidth>
requires(kWidth > 1) struct alignas(kWidth * 2) Elements<BFloat16, kWidth> {
  uint32_t pair[kWidth / 2];
  __device__ float at(int e) const {
    return e % 2 == 0 ? lower_bf16(pair[e / 2]) : upper_bf16(pair[e / 2]);
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

// A group of an input, if T is const, or of an output, at an address.
template <int kWidth, typename T>
struct GroupOf {
  Accumulator<std::remove_const_t<T>> x[kWidth];

  __device__ explicit GroupOf(T* from) {
    if constexpr (std::is_const_v<T>)
      widen_elements(load_elements<std::remove_const_t<T>, kWidth>(from), x);
  }
  __device__ void finish(T* to) const {
    if constexpr (!std::is_const_v<T>) store_elements(x, to);
  }
};

// Calls f(x[e], ...) for each element of the groups at these addresses: with the value of an input
// (const), and with a variable for an output, which f sets. What changes in place is both.
template <int kWidth, typename F, typename... T>
__device__ __forceinline__ void each_of_group(const F& f, T*... at) {
  [&](auto... group) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) f(group.x[e]...);
    (group.finish(at), ...);
  }(GroupOf<kWidth, T>(at)...);
}

inline constexpr int kGroup = 8;

// each_of_group() for the elements i < n of arrays, by one of `threads`: groups of eight, as far as
// there are any.
template <typename F, typename... T>
__device__ __forceinline__ void each_of_array(int64_t thread, int64_t threads, int64_t n,
                                              const F& f, T*... x) {
  const int64_t groups = are_aligned(x...) ? n / kGroup : 0, rest = groups * (kGroup - 1);
#pragma unroll 1
  for (int64_t i = thread; i < n - rest; i += threads)
    if (i < groups)
      each_of_group<kGroup>(f, (x + i * kGroup)...);
    else
      each_of_group<1>(f, (x + rest + i)...);
}
template <typename F, typename... T>
__global__ void __launch_bounds__(kBlockThreads) elements_kernel(int64_t n, F f, T*... x) {
  each_of_array(static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x,
                static_cast<int64_t>(gridDim.x) * kBlockThreads, n, f, x...);
}
// Calls f(x[i], ...) for every i < n, as each_of_group() does.
template <typename F, typename... T>
void for_each_element(const Context& ctx, int64_t n, const F& f, T*... x) {
  if (n <= 0) return;
  const int64_t parts = are_aligned(x...) ? n / kGroup + n % kGroup : n;
  const int64_t blocks = (parts + kBlockThreads - 1) / kBlockThreads;
  launch_blocks(ctx, grid_of(std::min(blocks, kMaxBlocks)), elements_kernel<F, T...>, n, f, x...);
}

// Exponentials and quotients for results of type T: for bf16, which has eight significant bits, a
// GPU's approximations, with relative errors below 2^-17.
template <typename T>
struct MathFor {
  using A = Accumulator<T>;
  static constexpr bool kCoarse = std::is_same_v<T, BFloat16>;
  __device__ static A exp(A x) {
    if constexpr (kCoarse)
      return exp2_approx(x * 1.44269504f);
    else
      return exp_of(x);
  }
  __device__ static A quotient(A x, A y) {
    if constexpr (kCoarse)
      return x * reciprocal_approx(y);
    else
      return x / y;
  }
};

// As Sigmoid.
template <typename T>
struct SigmoidFor {
  using A = Accumulator<T>;
  __device__ static A value(A x) { return MathFor<T>::quotient(A(1), A(1) + MathFor<T>::exp(-x)); }
  __device__ static A grad(A x) { return value(x) * value(-x); }
};

}  // namespace linea::cuda
