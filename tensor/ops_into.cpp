// Ops that write to existing memory.
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {

void add_into(const Tensor& a, const Tensor& b, const Tensor& y) {
  require_shape("add", "b", b, a.shape());
  require_shape("add", "y", y, a.shape());
  LINEA_LAUNCH(add, common_dtype("add", {&a, &b, &y}), a, b, y, y.numel());
}

void copy_into(const Tensor& x, const Tensor& y) {
  require_shape("copy", "y", y, x.shape());
  if (x.dtype() != y.dtype()) return cast_into({x}, {y});
  device_memory(x.device()).copy(context(), y.address(), x.address(), x.bytes());
}

void pointwise_into(Pointwise f, const Tensor& x, const Tensor& y) {
  require_shape("pointwise", "y", y, x.shape());
  LINEA_LAUNCH(pointwise, common_dtype("pointwise", {&x, &y}), f, x, y, x.numel());
}

// In a batch that is a part of a step tokens have their numbers in the step.
void dropout_into(const Tensor& x, float rate, uint32_t stream_id, int64_t first, const Tensor& y) {
  require(rate >= 0 && rate < 1, "dropout: the rate is {}; it must be in [0, 1)", rate);
  require_shape("dropout", "y", y, x.shape());
  const DType dtype = common_dtype("dropout", {&x, &y});
  const StepRows& part = context().rows;
  const int64_t C = x.size(-1), rows = x.numel() / C, own = part.positions;
  if (own == 0) {
    LINEA_LAUNCH(dropout, dtype, x, y, x.numel(), rate, stream_id,
                 first + part.first * part.length * C);
    return;
  }
  const Tensor from = x.reshape({rows, C}), to = y.reshape({rows, C});
  for (int64_t row = 0; row < rows;) {  // the positions of one sequence
    const int64_t token = first / C + row, sequence = part.first + token / own,
                  count = std::min(own - token % own, rows - row);
    LINEA_LAUNCH(dropout, dtype, from.rows(row, count), to.rows(row, count), count * C, rate,
                 stream_id, (sequence * part.length + part.first_position + token % own) * C);
    row += count;
  }
}

void matmul_into(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                 const Tensor& y, double beta, PackedWeight* packed) {
  GemmShape shape = product_shape(a, b, transpose_a, transpose_b);
  shape.beta = beta;
  shape.packed = packed;
  require(a.shape().rank() == 2 && b.shape().rank() == 2, "matmul: {} and {} are not two matrices",
          a.shape(), b.shape());
  require_shape("matmul", "y", y, {shape.rows, shape.cols});
  LINEA_LAUNCH(gemm, common_dtype("matmul", {&a, &b, &y}), shape, a, b, y);
}

void linear_into(const Tensor& x, const Norm& norm, const Linear& linear, bool gelu,
                 const Tensor& residual, const Tensor& y, const Tensor& gelu_input) {
  const Tensor &weight = linear.weight, &bias = linear.bias;
  const LinearShape shape{num_rows(y), columns(y), columns(x), gelu, linear.packed};
  require_shape("linear", "x", x, {shape.rows, shape.in});
  require_shape("linear", "weight", weight, {shape.out, shape.in});
  for (const Tensor& x_norm : {norm.weight, norm.bias})
    if (x_norm.defined()) require_shape("linear", "norm", x_norm, {shape.in});
  if (bias.defined()) require_shape("linear", "bias", bias, {shape.out});
  if (residual.defined()) require_shape("linear", "residual", residual, y.shape());
  if (gelu_input.defined()) require_shape("linear", "gelu_input", gelu_input, y.shape());
  const bool rounds = gelu_input.defined() && gelu_input.dtype() != y.dtype();
  const Tensor none, &same = rounds ? none : gelu_input, &rounded = rounds ? gelu_input : none;
  LINEA_LAUNCH(linear, common_dtype("linear", {&x, &weight, &y}), shape, x,
               NormWeights<Element>{data_or_null(norm.weight), data_or_null(norm.bias)}, weight,
               data_or_null(bias), data_or_null(residual), y,
               GeluInput<Element>{data_or_null(same), data_or_null(rounded)});
}

Shape panels_shape(const Tensor& weight) {
  require(weight.shape().rank() == 2, "pack_panels: {} is no matrix", weight.shape());
  return {(weight.size(0) + kPanel - 1) / kPanel, weight.size(1), kPanel};
}

void pack_panels_into(const Tensor& weight, const Tensor& panels) {
  require_shape("pack_panels", "panels", panels, panels_shape(weight));
  const int64_t out = weight.size(0), in = weight.size(1);
  if (panels.dtype() == DType::bf16) {
    LINEA_LAUNCH(pack_bf16_panels, weight.dtype(), weight, panels, out, in);
  } else {
    LINEA_LAUNCH(pack_panels, common_dtype("pack_panels", {&weight, &panels}), weight, panels, out,
                 in);
  }
}

void panel_matmul_into(const Tensor& x, const Tensor& panels, const Tensor& bias, const Tensor& y) {
  const int64_t R = num_rows(x), out = columns(y), in = columns(x);
  require_shape("panel_matmul", "panels", panels, {(out + kPanel - 1) / kPanel, in, kPanel});
  require_shape("panel_matmul", "y", y, {R, out});
  if (bias.defined()) require_shape("panel_matmul", "bias", bias, {out});
  const DType dtype = common_dtype("panel_matmul", {&x, &y});
  if (panels.dtype() == DType::bf16) {
    LINEA_LAUNCH(bf16_panel_gemm, dtype, x, panels, data_or_null(bias), y, R, out, in);
  } else {
    LINEA_LAUNCH(panel_gemm, common_dtype("panel_matmul", {&x, &panels}), x, panels,
                 data_or_null(bias), y, R, out, in);
  }
}

void gelu_recompute(const Tensor& u, const Tensor& h, const Tensor& dh) {
  require_shape("gelu_recompute", "h", h, u.shape());
  require_shape("gelu_recompute", "dh", dh, u.shape());
  LINEA_LAUNCH(gelu_recompute, common_dtype("gelu_recompute", {&u, &h, &dh}), u, h, dh, u.numel());
}

}  // namespace linea::ops
