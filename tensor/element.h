// The element types a tensor can store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/bfloat16.h"

namespace linea {

enum class DType : uint8_t { f32, f64, i32, bf16 };

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};

// The type of sums, statistics, normalizers, attention states and master weights of tensors that
// store T: T itself for float and double, float for BFloat16.
template <typename T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<BFloat16> {
  using type = float;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::type;

inline size_t size_of(DType dtype) {
  return dtype == DType::f64 ? 8 : dtype == DType::bf16 ? 2 : 4;
}

// The dtype of sums, statistics, normalizers and states of tensors of `dtype`.
inline DType sum_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

inline const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::bf16:
      return "bf16";
  }
  return "?";
}

// How attention kernels on a GPU multiply floats: exactly; on tensor cores with each factor split
// into two TF32 numbers and three products (about 21 of 24 bits; Ootomo and Yokota 2022); or
// rounded to TF32 (11 bits).
enum class FloatProducts : uint8_t { exact, split, rounded };

}  // namespace linea
