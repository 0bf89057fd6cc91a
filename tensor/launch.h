// Shared by the files of tensor/ops.h: tensors as rows of columns, and dispatch by dtype.
#pragma once

#include <type_traits>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace linea::ops {

inline int64_t columns(const Tensor& x) { return x.shape()[-1]; }
inline int64_t num_rows(const Tensor& x) { return columns(x) == 0 ? 0 : x.numel() / columns(x); }

// The elements of a tensor as the pointer that a kernel takes. Errors: another dtype, an undefined
// tensor; null for an undefined tensor where `optional`.
struct Elements {
  const Tensor& x;
  bool optional = false;
  template <typename T>
  operator T*() const {
    return optional ? x.data_or_null<std::remove_const_t<T>>() : x.data<std::remove_const_t<T>>();
  }
};
inline Elements data_or_null(const Tensor& x) { return {x, true}; }

// What a kernel takes of an argument: the elements of a tensor, all else itself.
inline Elements argument(const Tensor& x) { return {x}; }
template <typename T>
const T& argument(const T& x) {
  return x;
}
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Context&, Parameters...), const Arguments&... arguments) {
  kernel(context(), argument(arguments)...);
}

// Calls the kernel `op` of the context's device for the dtype, with tensors in the places of their
// elements, whose type is Element. Error: another dtype, naming `op`.
#define LINEA_LAUNCH(op, dtype, ...)                                        \
  with_stored(dtype, #op, [&](auto element) {                               \
    using Element = decltype(element);                                      \
    linea::ops::launch(kernels<Element>(context().device).op, __VA_ARGS__); \
  })

// The product of the last two axes of a and b, of one matrix. Error: inner sizes that differ.
GemmShape product_shape(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b);

}  // namespace linea::ops
