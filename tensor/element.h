// The element types a tensor can store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tensor/bfloat16.h"

namespace linea {

enum class DType : uint8_t { f32, f64, i32, bf16 };

constexpr DType dtype_of(float) { return DType::f32; }
constexpr DType dtype_of(double) { return DType::f64; }
constexpr DType dtype_of(int32_t) { return DType::i32; }
constexpr DType dtype_of(BFloat16) { return DType::bf16; }

// The type of sums, statistics, normalizers, attention states and master weights of tensors that
// store T: T itself for float and double, float for BFloat16.
template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

inline size_t size_of(DType dtype) {
  return dtype == DType::f64 ? 8 : dtype == DType::bf16 ? 2 : 4;
}

// The dtype of sums, statistics, normalizers and states of tensors of `dtype`.
inline DType sum_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

inline const char* name_of(DType dtype) {
  const char* const names[] = {"f32", "f64", "i32", "bf16"};
  return names[static_cast<size_t>(dtype)];
}

// Precision of float products. In attention kernels on a GPU: exact; on tensor cores with each
// factor split into two TF32 numbers and three products (about 21 of 24 bits; Ootomo and Yokota
// 2022); or rounded to TF32 (11 bits). On a CPU: exact, or with factors rounded to bf16.
enum class FloatProducts : uint8_t { exact, split, rounded };

}  // namespace linea
