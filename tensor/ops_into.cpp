// Ops that write to existing memory.
#include "tensor/backend.h"
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {

void add_into(const Tensor& a, const Tensor& b, const Tensor& y) {
  require_shape("add", "b", b, a.shape());
  require_shape("add", "y", y, a.shape());
  launch(common_dtype("add", {&a, &b, &y}), "add",
         [&](const auto& table) { table.add(context(), data(a), data(b), data(y), y.numel()); });
}

void copy_into(const Tensor& x, const Tensor& y) {
  require_shape("copy", "y", y, x.shape());
  common_dtype("copy", {&x, &y});
  device_memory(x.device()).copy(context(), y.address(), x.address(), x.bytes());
}

void pointwise_into(Pointwise f, const Tensor& x, const Tensor& y) {
  require_shape("pointwise", "y", y, x.shape());
  launch(common_dtype("pointwise", {&x, &y}), "pointwise",
         [&](const auto& table) { table.pointwise(context(), f, data(x), data(y), x.numel()); });
}

void dropout_into(const Tensor& x, float rate, uint32_t stream_id, int64_t first, const Tensor& y) {
  require(rate >= 0 && rate < 1, "dropout: the rate is {}; it must be in [0, 1)", rate);
  require_shape("dropout", "y", y, x.shape());
  launch(common_dtype("dropout", {&x, &y}), "dropout", [&](const auto& table) {
    table.dropout(context(), data(x), data(y), x.numel(), rate, stream_id, first);
  });
}

void matmul_into(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                 const Tensor& y, double beta) {
  GemmShape shape;
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.rows = a.size(transpose_a ? 1 : 0);
  shape.inner = a.size(transpose_a ? 0 : 1);
  shape.cols = b.size(transpose_b ? 0 : 1);
  shape.beta = beta;
  require(
      a.shape().rank() == 2 && b.shape().rank() == 2 && b.size(transpose_b ? 1 : 0) == shape.inner,
      "matmul: the inner sizes of {}{} and {}{} differ", a.shape(),
      transpose_a ? " (transposed)" : "", b.shape(), transpose_b ? " (transposed)" : "");
  require_shape("matmul", "y", y, {shape.rows, shape.cols});
  launch(common_dtype("matmul", {&a, &b, &y}), "matmul",
         [&](const auto& table) { table.gemm(context(), shape, data(a), data(b), data(y)); });
}

void linear_into(const Tensor& x, const Norm& norm, const Tensor& weight, const Tensor& bias,
                 bool gelu, const Tensor& residual, const Tensor& y) {
  const LinearShape shape{num_rows(y), columns(y), columns(x), gelu};
  require_shape("linear", "x", x, {shape.rows, shape.in});
  require_shape("linear", "weight", weight, {shape.out, shape.in});
  for (const Tensor& x_norm : {norm.weight, norm.bias})
    if (x_norm.defined()) require_shape("linear", "norm", x_norm, {shape.in});
  if (bias.defined()) require_shape("linear", "bias", bias, {shape.out});
  if (residual.defined()) require_shape("linear", "residual", residual, y.shape());
  launch(common_dtype("linear", {&x, &weight, &y}), "linear", [&](const auto& table) {
    table.linear(context(), shape, data(x), {data_or_null(norm.weight), data_or_null(norm.bias)},
                 data(weight), data_or_null(bias), data_or_null(residual), data(y));
  });
}

Shape panels_shape(const Tensor& weight) {
  require(weight.shape().rank() == 2, "pack_panels: {} is no matrix", weight.shape());
  return {(weight.size(0) + kPanel - 1) / kPanel, weight.size(1), kPanel};
}

void pack_panels_into(const Tensor& weight, const Tensor& panels) {
  require_shape("pack_panels", "panels", panels, panels_shape(weight));
  if (panels.dtype() != DType::bf16) common_dtype("pack_panels", {&weight, &panels});
  launch(weight.dtype(), "pack_panels", [&](const auto& table) {
    const int64_t out = weight.size(0), in = weight.size(1);
    if (panels.dtype() == DType::bf16) {
      table.pack_bf16_panels(context(), data(weight), data(panels), out, in);
    } else {
      table.pack_panels(context(), data(weight), data(panels), out, in);
    }
  });
}

void panel_matmul_into(const Tensor& x, const Tensor& panels, const Tensor& bias, const Tensor& y) {
  const int64_t out = columns(y), in = columns(x);
  require_shape("panel_matmul", "panels", panels, {(out + kPanel - 1) / kPanel, in, kPanel});
  require_shape("panel_matmul", "y", y, {num_rows(x), out});
  if (bias.defined()) require_shape("panel_matmul", "bias", bias, {out});
  if (panels.dtype() != DType::bf16) common_dtype("panel_matmul", {&x, &panels});
  launch(common_dtype("panel_matmul", {&x, &y}), "panel_matmul", [&](const auto& table) {
    const Elements added = data_or_null(bias);
    if (panels.dtype() == DType::bf16) {
      table.bf16_panel_gemm(context(), data(x), data(panels), added, data(y), num_rows(x), out, in);
    } else {
      table.panel_gemm(context(), data(x), data(panels), added, data(y), num_rows(x), out, in);
    }
  });
}

void gelu_recompute(const Tensor& u, const Tensor& h, const Tensor& dh) {
  require_shape("gelu_recompute", "h", h, u.shape());
  require_shape("gelu_recompute", "dh", dh, u.shape());
  launch(common_dtype("gelu_recompute", {&u, &h, &dh}), "gelu_recompute", [&](const auto& table) {
    table.gelu_recompute(context(), data(u), data(h), data(dh), u.numel());
  });
}

}  // namespace linea::ops
