// The element types a tensor can store, and the jump from a run-time DType to a C++ type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/error.h"

namespace linea {

enum class DType : uint8_t { f32, f64, i32 };

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
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};

// The type that sums, statistics, normalisers, attention states and master weights have when tensors
// store T: T itself for float and double; a half-width storage type would map to float.
template <typename T>
struct AccumulatorOf {
  using type = T;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::type;

inline size_t size_of(DType dtype) { return dtype == DType::f64 ? 8 : 4; }

inline const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
  }
  return "?";
}

// Calls body(T{}) with T = float or double. Error: any other dtype.
template <typename Body>
decltype(auto) with_real(DType dtype, const char* what, Body&& body) {
  if (dtype == DType::f64) return body(double{});
  require(dtype == DType::f32, "{} needs f32 or f64, not {}", what, name_of(dtype));
  return body(float{});
}

}  // namespace linea
