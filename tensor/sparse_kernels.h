// Kernels of attention to sets of keys, and of spans of rows (tensor/kernels.h).
#pragma once

#include "tensor/context.h"
#include "tensor/kernel_shapes.h"

namespace linea {

// Softmax attention over sets of keys, in tiles.
template <typename T>
struct SparseAttentionKernels {
  using A = Accumulator<T>;
  void (*sparse_attention)(Context&, const SparseShape&, const AttentionRows<const T>&,
                           const T* bias, const HeadRows<T>& y, A* log_sums);
  // dbias [BH,bias_length], null where there is no bias
  void (*sparse_attention_backward)(Context&, const SparseShape&, const AttentionRows<const T>&,
                                    const T* bias, const HeadRows<const T>& y, const A* log_sums,
                                    const HeadRows<const T>& dy, const AttentionRows<T>& grads,
                                    T* dbias);
};

// y [BH,count,width] of the spans of x; `rows` [BH,count,width]: those of the largest numbers, else null.
template <typename T>
struct SpanKernels {
  void (*pool_spans)(Context&, const SpanShape&, const T* x, T* y, int32_t* rows);
  void (*pool_spans_backward)(Context&, const SpanShape&, const T* dy, const int32_t* rows, T* dx);
};

}  // namespace linea
