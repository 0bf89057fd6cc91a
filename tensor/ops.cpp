#include "tensor/ops.h"

#include <algorithm>
#include <cmath>

#include "tensor/launch.h"

namespace linea::ops {
namespace {

// The dtype that both share. Errors: two shapes or dtypes that differ.
DType require_same(const char* op, const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape(), "{}: shapes {} and {} differ", op, a.shape(), b.shape());
  return common_dtype(op, {&a, &b});
}

// `row` [C...] is the end of x [..., C...]
void require_suffix(const char* op, const Shape& x, const Shape& row) {
  bool ends = row.rank() <= x.rank() && row.numel() > 0;
  for (int axis = 1; ends && axis <= row.rank(); ++axis) ends = x[-axis] == row[-axis];
  require(ends, "{}: {} does not repeat over {}", op, row, x);
}

}  // namespace

DType common_dtype(const char* op, std::initializer_list<const Tensor*> tensors) {
  const DType dtype = (*tensors.begin())->dtype();
  for (const Tensor* x : tensors) {
    require(x->defined(), "{}: a tensor is missing", op);
    require(x->dtype() == dtype && dtype != DType::i32, "{}: dtypes {} and {} do not match", op,
            name_of(dtype), name_of(x->dtype()));
  }
  return dtype;
}

void require_shape(const char* op, const char* name, const Tensor& x, const Shape& shape) {
  require(x.shape() == shape, "{}: {} has shape {}, expected {}", op, name, x.shape(), shape);
}

Tensor add(const Tensor& a, const Tensor& b) {
  const DType dtype = require_same("add", a, b);
  Tensor y(a.shape(), dtype);
  LINEA_LAUNCH(add, dtype, a, b, y, a.numel());
  return y;
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  const DType dtype = require_same("multiply", a, b);
  Tensor y(a.shape(), dtype);
  LINEA_LAUNCH(multiply, dtype, a, b, y, a.numel());
  return y;
}

Tensor scale(const Tensor& x, double factor) {
  Tensor y(x.shape(), x.dtype());
  LINEA_LAUNCH(scale, x.dtype(), x, factor, y, x.numel());
  return y;
}

Tensor pointwise(Pointwise f, const Tensor& x) {
  Tensor y(x.shape(), x.dtype());
  LINEA_LAUNCH(pointwise, x.dtype(), f, x, y, x.numel());
  return y;
}

Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : cast_all({x}, dtype)[0];
}

std::vector<Tensor> cast_all(const std::vector<Tensor>& xs, DType dtype) {
  std::vector<Tensor> ys;
  for (const Tensor& x : xs) ys.emplace_back(x.shape(), dtype);
  cast_into(xs, ys);
  return ys;
}

void cast_into(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys) {
  std::vector<CastSpan<float, BFloat16>> narrowed;
  std::vector<CastSpan<BFloat16, float>> widened;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor &x = xs[i], &y = ys[i];
    require(sum_dtype(y.dtype()) == sum_dtype(x.dtype()) && y.dtype() != x.dtype(),
            "cast: {} does not become {}", name_of(x.dtype()), name_of(y.dtype()));
    if (y.dtype() == DType::bf16) {
      narrowed.push_back({x.data<float>(), y.data<BFloat16>(), x.numel()});
    } else {
      widened.push_back({x.data<BFloat16>(), y.data<float>(), x.numel()});
    }
  }
  const Kernels<float>& table = kernels<float>(context().device);
  if (!narrowed.empty()) table.narrow(context(), narrowed.data(), narrowed.size());
  if (!widened.empty()) table.widen(context(), widened.data(), widened.size());
}

Tensor pointwise_backward(Pointwise f, const Tensor& x, const Tensor& dy) {
  const DType dtype = require_same("pointwise_backward", x, dy);
  Tensor dx(x.shape(), dtype);
  LINEA_LAUNCH(pointwise_backward, dtype, f, x, dy, dx, x.numel());
  return dx;
}

Tensor dropout(const Tensor& x, float rate, uint32_t stream_id) {
  Tensor y(x.shape(), x.dtype());
  dropout_into(x, rate, stream_id, 0, y);
  return y;
}

Tensor add_rows(const Tensor& x, const Tensor& row) {
  require_suffix("add_rows", x.shape(), row.shape());
  const DType dtype = common_dtype("add_rows", {&x, &row});
  Tensor y(x.shape(), dtype);
  LINEA_LAUNCH(add_rows, dtype, x, row, y, x.numel() / row.numel(), row.numel());
  return y;
}

Tensor sum_rows(const Tensor& x, const Shape& row) {
  require_suffix("sum_rows", x.shape(), row);
  Tensor y(row, x.dtype());
  LINEA_LAUNCH(sum_rows, x.dtype(), x, y, x.numel() / row.numel(), row.numel());
  return y;
}

Tensor permute(const Tensor& x, const PermuteShape& shape, const Shape& result) {
  const int64_t count = shape.size[0] * shape.size[1] * shape.size[2] * shape.size[3] * shape.inner;
  require(count == x.numel() && count == result.numel(), "permute: {} elements of {} as {}", count,
          x.shape(), result);
  // Axes of size 1 do not affect the order of elements.
  int last = -1;
  bool moves = false;
  for (const int axis : shape.axis)
    if (shape.size[axis] != 1) {
      moves = moves || axis < last;
      last = axis;
    }
  if (!moves) return x.reshape(result);
  Tensor y(result, x.dtype());
  LINEA_LAUNCH(permute, x.dtype(), shape, x, y);
  return y;
}

GemmShape product_shape(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  require(a.shape().rank() >= 2 && b.shape().rank() >= 2, "matmul: {} times {} needs two axes each",
          a.shape(), b.shape());
  const auto flipped = [](bool transpose) { return transpose ? " (transposed)" : ""; };
  const GemmShape shape{.transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .rows = a.shape()[transpose_a ? -1 : -2],
                        .cols = b.shape()[transpose_b ? -2 : -1],
                        .inner = a.shape()[transpose_a ? -2 : -1]};
  require(b.shape()[transpose_b ? -1 : -2] == shape.inner,
          "matmul: the inner sizes of {}{} and {}{} differ", a.shape(), flipped(transpose_a),
          b.shape(), flipped(transpose_b));
  return shape;
}

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, double alpha) {
  GemmShape shape = product_shape(a, b, transpose_a, transpose_b);
  shape.alpha = alpha;
  const DType dtype = common_dtype("matmul", {&a, &b});
  const int outer = a.shape().rank() - 2;
  shape.batch = a.shape().product(0, outer);
  if (b.shape().rank() == 2 && !transpose_a) {  // one b: a single tall product
    shape.rows *= shape.batch;
    shape.batch = 1;
  } else {
    bool same = b.shape().rank() == a.shape().rank();
    for (int axis = 0; same && axis < outer; ++axis) same = a.shape()[axis] == b.shape()[axis];
    require(same, "matmul: the outer axes of {} and {} differ", a.shape(), b.shape());
  }
  if (b.shape().rank() > 2) shape.set_strides();  // otherwise b is one matrix
  Tensor y(a.shape().with(-2, a.shape()[transpose_a ? -1 : -2]).with(-1, shape.cols), dtype);
  LINEA_LAUNCH(gemm, dtype, shape, a, b, y);
  return y;
}

LayerNorm layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_shape("layer_norm", "weight", weight, {columns(x)});
  if (bias.defined()) require_shape("layer_norm", "bias", bias, {columns(x)});
  const DType dtype = common_dtype("layer_norm", {&x, &weight, bias.defined() ? &bias : &weight});
  LayerNorm result{Tensor(x.shape(), dtype), Tensor({num_rows(x)}, sum_dtype(dtype)),
                   Tensor({num_rows(x)}, sum_dtype(dtype))};
  LINEA_LAUNCH(layer_norm, dtype, x, weight, data_or_null(bias), result.y, result.mean,
               result.scale, num_rows(x), columns(x));
  return result;
}

LayerNormGradient layer_norm_backward(const Tensor& x, const Tensor& weight, bool with_bias,
                                      const LayerNorm& saved, const Tensor& dy, const Tensor& dx) {
  require_same("layer_norm_backward", x, dy);
  LayerNormGradient result{dx.defined() ? dx : Tensor(x.shape(), x.dtype()),
                           Tensor(weight.shape(), x.dtype()),
                           with_bias ? Tensor(weight.shape(), x.dtype()) : Tensor()};
  LINEA_LAUNCH(layer_norm_backward, x.dtype(), x, weight, saved.mean, saved.scale, dy, result.dx,
               result.dweight, data_or_null(result.dbias), num_rows(x), columns(x));
  return result;
}

Tensor softmax(const Tensor& x) {
  Tensor y(x.shape(), x.dtype());
  LINEA_LAUNCH(softmax, x.dtype(), x, y, num_rows(x), columns(x));
  return y;
}

Tensor softmax_backward(const Tensor& y, const Tensor& dy) {
  require_same("softmax_backward", y, dy);
  Tensor dx(y.shape(), y.dtype());
  LINEA_LAUNCH(softmax_backward, y.dtype(), y, dy, dx, num_rows(y), columns(y));
  return dx;
}

std::pair<Tensor, Tensor> normalize(const Tensor& x) {
  Tensor y(x.shape(), x.dtype()), sums({num_rows(x)}, sum_dtype(x.dtype()));
  LINEA_LAUNCH(normalize, x.dtype(), x, y, sums, num_rows(x), columns(x));
  return {y, sums};
}

Tensor normalize_backward(const Tensor& y, const Tensor& sums, const Tensor& dy) {
  require_same("normalize_backward", y, dy);
  Tensor dx(y.shape(), y.dtype());
  LINEA_LAUNCH(normalize_backward, y.dtype(), y, sums, dy, dx, num_rows(y), columns(y));
  return dx;
}

std::pair<Tensor, Tensor> unit_rows(const Tensor& x, double length) {
  Tensor y(x.shape(), x.dtype()), scales({num_rows(x)}, sum_dtype(x.dtype()));
  LINEA_LAUNCH(unit_rows, x.dtype(), x, y, scales, num_rows(x), columns(x), length);
  return {y, scales};
}

Tensor unit_rows_backward(const Tensor& y, const Tensor& scales, const Tensor& dy, double length) {
  require_same("unit_rows_backward", y, dy);
  Tensor dx(y.shape(), y.dtype());
  LINEA_LAUNCH(unit_rows_backward, y.dtype(), y, scales, dy, dx, num_rows(y), columns(y), length);
  return dx;
}

Tensor gated_norm(const Tensor& y, const Tensor& weight, const Tensor& g, int64_t heads) {
  require_same("gated_norm", y, g);
  require(heads > 0 && columns(y) % heads == 0, "gated_norm: {} is not rows of {} heads", y.shape(),
          heads);
  if (weight.defined()) require_shape("gated_norm", "weight", weight, {columns(y)});
  Tensor z(y.shape(), y.dtype());
  LINEA_LAUNCH(gated_norm, y.dtype(), y, data_or_null(weight), g, z, num_rows(y), heads,
               columns(y));
  return z;
}

GatedNormGradient gated_norm_backward(const Tensor& y, const Tensor& weight, const Tensor& g,
                                      int64_t heads, const Tensor& dz) {
  require_same("gated_norm_backward", y, dz);
  const auto like = [](const Tensor& x) { return Tensor(x.shape(), x.dtype()); };
  GatedNormGradient result{like(y), weight.defined() ? like(weight) : Tensor(), like(g)};
  LINEA_LAUNCH(gated_norm_backward, y.dtype(), y, data_or_null(weight), g, dz, result.dy,
               data_or_null(result.dweight), result.dg, num_rows(y), heads, columns(y));
  return result;
}

void clear_padding(const Tensor& x, const Tensor& valid) {
  if (!valid.defined() || x.numel() == 0) return;
  const int64_t BH = x.size(0) * x.size(1), N = x.size(2);
  LINEA_LAUNCH(clear_padding, x.dtype(), ValidKeys{valid.data<int32_t>(), x.size(1)}, x, BH, N,
               x.numel() / (BH * N), 0);
}

Tensor reverse_cumsum(const Tensor& x, const Tensor& totals) {
  Tensor y(x.shape(), x.dtype());
  if (totals.defined())
    require(totals.numel() == num_rows(x), "reverse_cumsum: {} totals of {} rows", totals.numel(),
            num_rows(x));
  LINEA_LAUNCH(reverse_cumsum, x.dtype(), x, y, num_rows(x), columns(x), data_or_null(totals));
  return y;
}

Tensor mask_causal(const Tensor& x, double value) {
  require(x.shape().rank() >= 2 && x.shape()[-1] == x.shape()[-2],
          "mask_causal: {} is not square in its last two axes", x.shape());
  Tensor y(x.shape(), x.dtype());
  LINEA_LAUNCH(mask_causal, x.dtype(), x, y, num_rows(x), columns(x), value);
  return y;
}

int64_t count_nonfinite(const Tensor& x) {
  const std::vector<double> values = x.to_doubles();
  return std::count_if(values.begin(), values.end(), [](double y) { return !std::isfinite(y); });
}

}  // namespace linea::ops
