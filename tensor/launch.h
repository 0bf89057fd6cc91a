// What the files of tensor/ops.h share: a tensor seen as rows, and the jump to the kernels of its
// dtype.
#pragma once

#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace linea::ops {

inline int64_t columns(const Tensor& x) { return x.shape()[-1]; }
inline int64_t num_rows(const Tensor& x) { return columns(x) == 0 ? 0 : x.numel() / columns(x); }

// Runs body(kernels, T{}) for the dtype, on the context's device.
template <typename Body>
void launch(DType dtype, const char* op, const Body& body) {
  with_stored(dtype, op, [&](auto zero) {
    using T = decltype(zero);
    body(kernels<T>(context().device), zero);
  });
}

}  // namespace linea::ops
