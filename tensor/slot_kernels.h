// The kernels of attention that compresses positions to slots: a topic of tensor/kernels.h.
#pragma once

#include "tensor/context.h"
#include "tensor/key_sets.h"

namespace linea {

// Rows [BH,rows,width] of `heads` heads, and as many slots, segments or taps.
struct SlotShape {
  int64_t batch_heads, heads, rows, width, slots;
  ValidKeys valid{};
  int64_t first = 0;  // the position of the first row, where they are counted
};

// Formulas in autograd/slots.cpp. x, y and their gradients are [BH,rows,width] where nothing else is said.
template <typename T>
struct SlotKernels {
  // dx of y = log(1 + e^x), given y
  void (*softplus_backward)(Context&, const T* y, const T* dy, T* dx, int64_t n);
  // y_t = factor x_t / t, t = 1, 2, ... up to the number of valid positions, and that from there on
  void (*divide_by_count)(Context&, const SlotShape&, const T* x, double factor, T* y);
  // y, dy [BH,slots,width]
  void (*segment_means)(Context&, const SlotShape&, const T* x, T* y);
  void (*segment_means_backward)(Context&, const SlotShape&, const T* dy, T* dx);
  // a, z [R,m,m]
  void (*transpose_over_norm)(Context&, const T* a, T* z, int64_t R, int64_t m);
  void (*transpose_over_norm_backward)(Context&, const T* a, const T* dz, T* da, int64_t R,
                                       int64_t m);
  // w [H,slots], dw [BH,slots]
  void (*centered_convolution)(Context&, const SlotShape&, const T* x, const T* w, T* y);
  void (*centered_convolution_backward)(Context&, const SlotShape&, const T* x, const T* w,
                                        const T* dy, T* dx, T* dw);
};

}  // namespace linea
