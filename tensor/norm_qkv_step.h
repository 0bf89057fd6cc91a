// RecurrentKernels::norm_qkv_step by parts: one product for q, k and v, then the step.
#pragma once

#include "tensor/workspace.h"

namespace linea {

template <typename T>
void norm_qkv_step_by_parts(Context& ctx, decltype(LinearKernels<T>::linear) product,
                            decltype(RecurrentKernels<T>::recurrent_step) step,
                            const LinearShape& linear, const T* x, const NormWeights<T>& norm,
                            const T* w, const T* bias, const ChunkShape& shape,
                            const RecurrentView<T>& state, T* y) {
  if (linear.rows == 0) return;
  const Workspace<T> qkv(ctx, linear.rows * linear.out);
  product(ctx, linear, x, norm, w, bias, nullptr, qkv.data());
  const int64_t heads = shape.batch_heads / linear.rows, width = linear.out / (3 * heads);
  const auto rows = [&](int64_t i) {
    return HeadRows<const T>{
        qkv.data() + i * heads * width, linear.out, width, linear.out, heads, 0};
  };
  step(ctx, shape, {.q = rows(0), .k = rows(1), .weight = {}, .decay = {}, .v = rows(2)}, state, y);
}

}  // namespace linea
