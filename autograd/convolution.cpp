#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {

// y[b,n] = sum_t w[t] x[b, n - o_t];  dx[b,n] = sum_t w[t] dy[b, n + o_t],
// dw[t] = sum_{b,n} dy[b,n] x[b, n - o_t]
Var causal_convolution(const Var& x, const Var& w, const ConvolutionShape& offsets) {
  return Var::from_op("causal_convolution", ops::convolution(x.value(), w.value(), offsets), {x, w},
                      [saved = x.saved(), w = w.value(), offsets](const Tensor& dy) {
                        const auto [dx, dw] =
                            ops::convolution_backward(ops::cast(saved, dy.dtype()), w, offsets, dy);
                        return Gradients{dx, dw};
                      });
}

}  // namespace linea
