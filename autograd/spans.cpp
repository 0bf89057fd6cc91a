#include "autograd/ops.h"
#include "tensor/launch.h"

namespace linea {

// The formulas of forward and backward: tensor/cpu/spans.cpp.
Var pool_spans(const Var& x, int64_t size, int64_t stride, bool largest) {
  const int64_t B = x.size(0), H = x.size(1), N = x.size(2), D = x.size(3);
  const SpanShape shape{.batch_heads = B * H,
                        .rows = N,
                        .width = D,
                        .size = size,
                        .stride = stride,
                        .count = N < size ? 0 : (N - size) / stride + 1,
                        .largest = largest};
  const Shape pooled{B, H, shape.count, D};
  const Tensor y(pooled, x.dtype()), rows = largest ? Tensor(pooled, DType::i32) : Tensor();
  LINEA_LAUNCH(pool_spans, x.dtype(), shape, x.value(), y, ops::data_or_null(rows));
  return Var::from_op("pool_spans", y, {x}, [shape, rows, before = x.shape()](const Tensor& dy) {
    const Tensor dx(before, dy.dtype());
    LINEA_LAUNCH(pool_spans_backward, dy.dtype(), shape, dy, ops::data_or_null(rows), dx);
    return dx;
  });
}

}  // namespace linea
