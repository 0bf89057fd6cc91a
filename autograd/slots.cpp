#include "autograd/slots.h"

#include "autograd/qkv_layout.h"
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea {
namespace {

void require_rows(const char* op, const Var& x, const Tensor& valid = {}) {
  require(x.shape().rank() == 4, "{}: {} is not [B,H,N,C]", op, x.shape());
  if (valid.defined()) ops::require_shape(op, "valid", valid, {x.size(0)});
}

SlotShape slot_shape(const Shape& x, int64_t slots, const Tensor& valid) {
  return {x[0] * x[1], x[1], x[2], x[3], slots, {valid.data_or_null<int32_t>(), x[1]}};
}

}  // namespace

// y_b = x;  dx = sum_b dy_b
Var repeat(const Var& x, int64_t count) {
  const Shape own = x.shape();
  require(own.rank() == 3, "repeat: {} is not [H,m,C]", own);
  const Tensor y({count, own[0], own[1], own[2]}, x.dtype());
  for (int64_t b = 0; b < count; ++b) ops::copy_into(x.value(), y.select(b));
  return Var::from_op("repeat", y, {x}, [own](const Tensor& dy) { return ops::sum_rows(dy, own); });
}

// y_bh = x_bh w_h;  dx_bh = dy_bh w_h^T, dw_h = sum_b x_bh^T dy_bh
Var head_matmul(const Var& x, const Var& w) {
  require_rows("head_matmul", x);
  const Tensor y = ops::head_matmul(flat_heads(x.value()), w.value(), 0, false);
  return Var::from_op(
      "head_matmul", y.reshape(x.shape().with(-1, w.size(2))), {x, w},
      [x = x.value(), w = w.value()](const Tensor& dy) {
        const Tensor dx = ops::head_matmul(flat_heads(dy), w, 0, true);
        return Gradients{dx.reshape(x.shape()), ops::sum_rows(ops::matmul(x, dy, true), w.shape())};
      });
}

namespace {

// The products of mix_rows: of one sequence with the matrices of its heads, or of all with one.
struct MixShape {
  MixShape(const Shape& x, const Shape& w)
      : N(x[2]), C(x[3]), m(w[2]), w_stride(w[0] == 1 ? 0 : w[1] * w[2]) {
    batch = w[0] == 1 ? x[0] * x[1] : w[0];
    count = w[0] == 1 ? 1 : x[0];
  }
  // x [B,H,...] as [count,batch,...]
  Tensor groups(const Tensor& x) const { return x.reshape({count, batch, x.size(2), x.size(3)}); }
  // A is w, of which there may be more rows than these, or one matrix.
  GemmShape by_w(GemmShape shape) const {
    shape.batch = batch;
    shape.set_strides();
    shape.stride_a = w_stride;
    return shape;
  }
  GemmShape compress() const {
    return by_w({.transpose_a = true, .rows = m, .cols = C, .inner = N});
  }
  GemmShape expand() const { return by_w({.rows = N, .cols = C, .inner = m}); }
  // dw += x dy^T of one sequence, or of one head where all have one matrix.
  GemmShape outer() const {
    GemmShape shape{.transpose_b = true, .rows = N, .cols = m, .inner = C, .beta = 1};
    shape.batch = w_stride == 0 ? 1 : batch;
    shape.set_strides();
    shape.stride_c = w_stride;
    return shape;
  }

  int64_t N, C, m, w_stride, batch, count;
};

}  // namespace

// y_bh = w_h^T x_bh;  dx_bh = w_h dy_bh, dw_h = sum_b x_bh dy_bh^T
Var mix_rows(const Var& x, const Var& w) {
  require_rows("mix_rows", x);
  require(
      w.shape().rank() == 3 && (w.size(0) == 1 || w.size(0) == x.size(1)) && w.size(1) >= x.size(2),
      "mix_rows: {} has no rows for those of {}", w.shape(), x.shape());
  const MixShape shape(x.shape(), w.shape());
  const Tensor y(x.shape().with(2, shape.m),
                 ops::common_dtype("mix_rows", {&x.value(), &w.value()}));
  const Tensor given = shape.groups(x.value()), made = shape.groups(y);
  for (int64_t b = 0; b < shape.count; ++b)
    LINEA_LAUNCH(gemm, y.dtype(), shape.compress(), w.value(), given.select(b), made.select(b));
  return Var::from_op(
      "mix_rows", y, {x, w},
      [shape, x = x.value(), w = w.value(), needs_w = w.requires_grad()](const Tensor& dy) {
        const Tensor dx(x.shape(), x.dtype()), from = shape.groups(dy), to = shape.groups(dx);
        for (int64_t b = 0; b < shape.count; ++b)
          LINEA_LAUNCH(gemm, x.dtype(), shape.expand(), w, from.select(b), to.select(b));
        if (!needs_w) return Gradients{dx, Tensor()};
        const Tensor dw = Tensor::zeros(w.shape(), w.dtype());
        const int64_t each = shape.outer().batch, all = x.size(0) * x.size(1);
        for (int64_t bh = 0; bh < all; bh += each)
          LINEA_LAUNCH(gemm, x.dtype(), shape.outer(), flat_heads(x).rows(bh, each),
                       flat_heads(dy).rows(bh, each), dw);
        return Gradients{dx, dw};
      });
}

// y_c = sum_{n in c} x_n / |c|;  dx_n = sum_{c: n in c} dy_c / |c|
Var segment_means(const Var& x, int64_t segments, const Tensor& valid) {
  require_rows("segment_means", x, valid);
  const Tensor y(x.shape().with(2, segments), x.dtype());
  LINEA_LAUNCH(segment_means, x.dtype(), slot_shape(x.shape(), segments, valid), x.value(), y);
  return Var::from_op(
      "segment_means", y, {x}, [own = x.shape(), segments, valid](const Tensor& dy) {
        const Tensor dx(own, dy.dtype());
        LINEA_LAUNCH(segment_means_backward, dy.dtype(), slot_shape(own, segments, valid), dy, dx);
        return dx;
      });
}

// Z = A^T / n;  dA = dZ^T / n, less sum (dZ o Z) / n in the column whose sum is n
Var transpose_over_norm(const Var& a) {
  const int64_t m = a.size(-1), R = m == 0 ? 0 : a.value().numel() / (m * m);
  require(a.size(-2) == m, "transpose_over_norm: {} are no square matrices", a.shape());
  const Tensor z(a.shape(), a.dtype());
  LINEA_LAUNCH(transpose_over_norm, a.dtype(), a.value(), z, R, m);
  return Var::from_op("transpose_over_norm", z, {a}, [a = a.value(), R, m](const Tensor& dz) {
    const Tensor da(a.shape(), a.dtype());
    LINEA_LAUNCH(transpose_over_norm_backward, a.dtype(), a, dz, da, R, m);
    return da;
  });
}

// dx_n = sum_t w_ht dy_{n - t + T/2}, dw_ht = sum_{b,n} dy_n.x_{n + t - T/2}
Var centered_convolution(const Var& x, const Var& w, const Tensor& valid) {
  require_rows("centered_convolution", x, valid);
  const int64_t T = w.size(-1);
  ops::require_shape("centered_convolution", "w", w.value(), {x.size(1), T});
  const Tensor y(x.shape(), x.dtype());
  LINEA_LAUNCH(centered_convolution, x.dtype(), slot_shape(x.shape(), T, valid), x.value(),
               w.value(), y);
  return Var::from_op(
      "centered_convolution", y, {x, w},
      [x = x.value(), w = w.value(), T, valid](const Tensor& dy) {
        const Tensor dx(x.shape(), x.dtype()), dw({x.size(0), w.size(0), T}, x.dtype());
        LINEA_LAUNCH(centered_convolution_backward, x.dtype(), slot_shape(x.shape(), T, valid), x,
                     w, dy, dx, dw);
        return Gradients{dx, ops::sum_rows(dw, w.shape())};
      });
}

}  // namespace linea
