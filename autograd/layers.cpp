#include "autograd/ops.h"
#include "tensor/context.h"
#include "tensor/ops.h"
#include "tensor/packed_weights.h"

namespace linea {
namespace {

// x [...,C] as rows [R,C].
Tensor flat(const Tensor& x) { return x.reshape({x.numel() / x.size(-1), x.size(-1)}); }

// Rows of a saved tensor, in the dtype in which it was computed.
Tensor restored(const Tensor& saved, int64_t first, int64_t count, DType dtype) {
  return ops::cast(saved.rows(first, count), dtype);
}

// body(first, count) over R rows, in blocks of which `widest` columns fit in cache. All multiply by
// the weights, which do not change.
template <typename Body>
void each_block(int64_t R, int64_t widest, std::initializer_list<Tensor> weights,
                const Body& body) {
  const PackedWeights packed(weights);
  const int64_t block = std::max<int64_t>(64, context().sizes.block / std::max<int64_t>(widest, 1));
  for (int64_t first = 0; first < R; first += block) body(first, std::min(block, R - first));
}

// The tensors of a norm or of a linear layer, undefined where it has none, and in a backward pass
// the gradients of its parameters, summed over blocks of rows.
struct Layer {
  Layer() = default;
  Layer(const LinearVars& vars)  // NOLINT: implicit
      : weight(vars.weight.value_or_none()), bias(vars.bias.value_or_none()), panels(vars.panels) {}
  Tensor weight, bias, panels, dweight, dbias;
};

void add_to(Tensor& sum, const Tensor& x) { sum = sum.defined() ? ops::add(sum, x) : x; }

// The inputs of an op on x: x and the parameters of its layers; and the gradients of these.
std::vector<Var> inputs_of(const Var& x, std::initializer_list<LinearVars> layers) {
  std::vector<Var> inputs = {x};
  for (const LinearVars& layer : layers)
    for (const Var& parameter : {layer.weight, layer.bias})
      if (parameter.defined()) inputs.push_back(parameter);
  return inputs;
}
Gradients gradients_of(const Tensor& dx, std::initializer_list<Layer> layers) {
  Gradients gradients(dx);
  const auto push = [&](const Tensor& grad, const Tensor& x) {
    if (x.defined())
      gradients.emplace_back(grad.defined() ? grad : Tensor::zeros(x.shape(), x.dtype()));
  };
  for (const Layer& layer : layers) {
    push(layer.dweight, layer.weight);
    push(layer.dbias, layer.bias);
  }
  return gradients;
}

// A residual as rows; undefined where there is none.
Tensor flat_residual(const char* op, const Var& residual, const Shape& shape) {
  if (!residual.defined()) return {};
  ops::require_shape(op, "residual", residual.value(), shape);
  return flat(residual.value());
}

// y = r + f(n(x) W^T + b), f gelu or the identity, n a norm or the identity; r may be undefined. u,
// unless undefined, stores the input of gelu.
void apply_linear(const Tensor& x, const Layer& n, const Layer& linear, const Tensor& y,
                  bool gelu = false, const Tensor& r = {}, const Tensor& u = {}) {
  if (!linear.panels.defined())
    return ops::linear_into(x, {n.weight, n.bias}, linear.weight, linear.bias, gelu, r, y, u);
  const Tensor from = n.weight.defined() ? ops::layer_norm(x, n.weight, n.bias).y : x;
  ops::panel_matmul_into(from, linear.panels, linear.bias, y);
  if (gelu) ops::pointwise_into(Pointwise::gelu, y, y);
  if (r.defined()) ops::add_into(r, y, y);
}

// y = r + drop(x W^T + b) in the rows `first` and on of all_y, of which x has the inputs; all_r may
// be undefined
void apply_residual(const Tensor& all_r, const Tensor& x, const Layer& linear, float rate,
                    uint32_t stream_id, int64_t first, const Tensor& all_y) {
  const Tensor y = all_y.rows(first, x.size(0)),
               r = all_r.defined() ? all_r.rows(first, x.size(0)) : all_r;
  if (rate == 0) return apply_linear(x, {}, linear, y, false, r);
  const Tensor branch = r.defined() ? Tensor(y.shape(), y.dtype()) : y;
  apply_linear(x, {}, linear, branch);
  ops::dropout_into(branch, rate, stream_id, first * y.size(1), branch);
  if (r.defined()) ops::add_into(r, branch, y);
}

// dW += dy^T x, db += sum_r dy_r
void add_linear_gradients(const Tensor& x, const Tensor& dy, Layer& linear) {
  const bool first = !linear.dweight.defined();
  if (first) linear.dweight = Tensor(linear.weight.shape(), x.dtype());
  ops::matmul_into(dy, x, true, false, linear.dweight, first ? 0 : 1);
  if (linear.bias.defined()) add_to(linear.dbias, ops::sum_rows(dy, linear.bias.shape()));
}

// dx of y = linear(norm(x)); adds to the gradients of both.
void norm_linear_backward(const Tensor& x, const Tensor& dy, Layer& norm, Layer& linear,
                          const Tensor& dx) {
  const ops::LayerNorm normed = ops::layer_norm(x, norm.weight, norm.bias);
  add_linear_gradients(normed.y, dy, linear);
  const ops::LayerNormGradient d = ops::layer_norm_backward(
      x, norm.weight, norm.bias.defined(), normed, ops::matmul(dy, linear.weight), dx);
  add_to(norm.dweight, d.dweight);
  if (norm.bias.defined()) add_to(norm.dbias, d.dbias);
}

}  // namespace

// n = norm(x), y = n W^T + b;  dW = dy^T n, db = sum_r dy_r, dn = dy W, dx from dn by the norm's
// backward
Var norm_linear(const Var& x, const NormVars& norm, const LinearVars& linear) {
  const Tensor rows = flat(x.value());
  const Layer n = norm, w = linear;
  const int64_t R = rows.size(0), out = w.weight.size(0);
  const Tensor y(x.shape().with(-1, out), rows.dtype()), y_rows = flat(y);
  each_block(R, out, {w.weight}, [&](int64_t first, int64_t count) {
    apply_linear(rows.rows(first, count), n, w, y_rows.rows(first, count));
  });
  return Var::from_op(
      "norm_linear", y, inputs_of(x, {norm, linear}),
      [=, shape = x.shape(), dtype = x.dtype(), saved = flat(x.saved())](const Tensor& dy) {
        Layer dn = n, dw = w;
        const Tensor dx(saved.shape(), dtype), dy_rows = flat(dy);
        each_block(R, out, {w.weight}, [&](int64_t first, int64_t count) {
          norm_linear_backward(restored(saved, first, count, dtype), dy_rows.rows(first, count), dn,
                               dw, dx.rows(first, count));
        });
        return gradients_of(dx.reshape(shape), {dn, dw});
      });
}

// y = r + drop(x W^T + b), r may be undefined: 0;  dr = dy, ds = drop(dy), dW = ds^T x, db = sum_r
// ds_r, dx = ds W
Var add_linear(const Var& residual, const Var& x, const LinearVars& linear, float rate,
               uint32_t stream_id) {
  const Layer w = linear;
  const Shape shape = x.shape().with(-1, w.weight.size(0));
  const Tensor rows = flat(x.value()), r = flat_residual("add_linear", residual, shape);
  const int64_t R = rows.size(0), out = w.weight.size(0);
  const Tensor y(shape, rows.dtype()), y_rows = flat(y);
  each_block(R, out, {w.weight}, [&](int64_t first, int64_t count) {
    apply_residual(r, rows.rows(first, count), w, rate, stream_id, first, y_rows);
  });
  std::vector<Var> inputs = inputs_of(x, {linear});
  const bool adds = r.defined(), needs_x = x.requires_grad();
  if (adds) inputs.push_back(residual);
  return Var::from_op(
      "add_linear", y, inputs, [=, shape = x.shape(), saved = flat(x.saved())](const Tensor& dy) {
        Layer dw = w;
        const Tensor grad = rate > 0 ? ops::dropout(flat(dy), rate, stream_id) : flat(dy);
        add_linear_gradients(ops::cast(saved, grad.dtype()), grad, dw);
        const Tensor dx = needs_x ? ops::matmul(grad, w.weight).reshape(shape) : Tensor();
        Gradients gradients = gradients_of(dx, {dw});
        if (adds) gradients.emplace_back(dy);
        return gradients;
      });
}

// z = n(y) silu(g), x = r + drop(z W^T + b), n the RMS norm of each head, or the identity; r may be
// undefined: 0;  with ds = drop(dx): dr = dx, dW = ds^T z, db = sum_r ds_r, dz = ds W; dy, dg and dn
// of dz by the gated norm's backward. z is computed again.
Var add_gated_linear(const Var& residual, const Var& y, const Var& norm, const Var& gate,
                     int64_t heads, const LinearVars& linear, float rate, uint32_t stream_id) {
  const Layer w = linear;
  const Shape shape = y.shape().with(-1, w.weight.size(0));
  ops::require_shape("add_gated_linear", "gate", gate.value(), y.shape());
  const Tensor rows = flat(y.value()), gates = flat(gate.value()), n = norm.value_or_none(),
               r = flat_residual("add_gated_linear", residual, shape);
  const int64_t R = rows.size(0), widest = std::max(w.weight.size(0), rows.size(1));
  const DType dtype = rows.dtype();
  const Tensor x(shape, dtype), x_rows = flat(x);
  each_block(R, widest, {w.weight}, [&](int64_t first, int64_t count) {
    const Tensor z = ops::gated_norm(rows.rows(first, count), n, gates.rows(first, count), heads);
    apply_residual(r, z, w, rate, stream_id, first, x_rows);
  });
  std::vector<Var> inputs = inputs_of(y, {linear});
  inputs.push_back(gate);
  for (const Var& optional : {norm, residual})
    if (optional.defined()) inputs.push_back(optional);
  return Var::from_op(
      "add_gated_linear", x, inputs,
      [=, shape = y.shape(), adds = r.defined(), saved = flat(y.saved()),
       saved_gates = flat(gate.saved())](const Tensor& dx) {
        Layer dw = w;
        Tensor dn;
        const Tensor dy(saved.shape(), dtype), dgate(saved.shape(), dtype);
        const Tensor grad = rate > 0 ? ops::dropout(flat(dx), rate, stream_id) : flat(dx);
        each_block(R, widest, {w.weight}, [&](int64_t first, int64_t count) {
          const Tensor from = restored(saved, first, count, dtype),
                       g = restored(saved_gates, first, count, dtype), ds = grad.rows(first, count);
          add_linear_gradients(ops::gated_norm(from, n, g, heads), ds, dw);
          const ops::GatedNormGradient d =
              ops::gated_norm_backward(from, n, g, heads, ops::matmul(ds, w.weight));
          ops::copy_into(d.dy, dy.rows(first, count));
          ops::copy_into(d.dg, dgate.rows(first, count));
          if (n.defined()) add_to(dn, d.dweight);
        });
        Gradients gradients = gradients_of(dy.reshape(shape), {dw});
        gradients.emplace_back(dgate.reshape(shape));
        if (n.defined())
          gradients.emplace_back(dn.defined() ? dn : Tensor::zeros(n.shape(), dtype));
        if (adds) gradients.emplace_back(dx);
        return gradients;
      });
}

// u = norm(x) U^T + a, h = gelu(u), y = r + drop(h D^T + b), r may be undefined: 0;  with ds = drop(dy):
// dr = dy, dD = ds^T h, db = sum_r ds_r, du = gelu'(u) (ds D), dU = du^T norm(x), da = sum_r du_r,
// dx = the norm's of du U
Var add_feed_forward(const Var& residual, const Var& x, const NormVars& norm, const LinearVars& up,
                     const LinearVars& down, float rate, uint32_t stream_id) {
  const Tensor rows = flat(x.value()), r = flat_residual("add_feed_forward", residual, x.shape());
  const Layer n = norm, w_up = up, w_down = down;
  const int64_t R = rows.size(0), C = rows.size(1), wide = w_up.weight.size(0);
  std::vector<Var> inputs = inputs_of(x, {norm, up, down});
  if (r.defined()) inputs.push_back(residual);
  const bool saves = Var::gradients_needed(inputs), adds = r.defined();
  const DType dtype = rows.dtype();
  const Tensor y(x.shape(), dtype), y_rows = flat(y),
                                    u = saves ? Tensor({R, wide}, saved_dtype(dtype)) : Tensor();
  each_block(R, wide, {w_up.weight, w_down.weight}, [&](int64_t first, int64_t count) {
    const Tensor h({count, wide}, dtype);
    apply_linear(rows.rows(first, count), n, w_up, h, true, {}, saves ? u.rows(first, count) : u);
    apply_residual(r, h, w_down, rate, stream_id, first, y_rows);
  });
  return Var::from_op(
      "add_feed_forward", y, inputs,
      [=, shape = x.shape(), saved = flat(x.saved())](const Tensor& dy) {
        Layer dn = n, dw_up = w_up, dw_down = w_down;
        const Tensor dx(saved.shape(), dtype), dy_rows = flat(dy);
        each_block(R, wide, {w_up.weight, w_down.weight}, [&](int64_t first, int64_t count) {
          const Tensor dto = dy_rows.rows(first, count), hidden = restored(u, first, count, dtype);
          Tensor grad = dto;
          if (rate > 0) {
            grad = Tensor(dto.shape(), dto.dtype());
            ops::dropout_into(dto, rate, stream_id, first * C, grad);
          }
          const Tensor du = ops::matmul(grad, w_down.weight), h(hidden.shape(), hidden.dtype());
          ops::gelu_recompute(hidden, h, du);
          add_linear_gradients(h, grad, dw_down);
          const Tensor dfrom = dx.rows(first, count);
          norm_linear_backward(restored(saved, first, count, dtype), du, dn, dw_up, dfrom);
        });
        Gradients gradients = gradients_of(dx.reshape(shape), {dn, dw_up, dw_down});
        if (adds) gradients.emplace_back(dy);
        return gradients;
      });
}

}  // namespace linea
