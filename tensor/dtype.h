// The jump from a run-time DType to a C++ type.
#pragma once

#include "base/error.h"
#include "tensor/element.h"

namespace linea {

// Calls body(T{}) with T = float or double. Error: any other dtype.
template <typename Body>
decltype(auto) with_real(DType dtype, const char* what, Body&& body) {
  if (dtype == DType::f64) return body(double{});
  require(dtype == DType::f32, "{} needs f32 or f64, not {}", what, name_of(dtype));
  return body(float{});
}

// with_real, or BFloat16: for what is stored, not what is summed.
template <typename Body>
decltype(auto) with_stored(DType dtype, const char* what, Body&& body) {
  if (dtype == DType::bf16) return body(BFloat16{});
  return with_real(dtype, what, body);
}

}  // namespace linea
