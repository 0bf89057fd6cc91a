#include "autograd/ops.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// x [...,C] as rows [R,C].
Tensor flat(const Tensor& x) { return x.reshape({x.numel() / x.size(-1), x.size(-1)}); }

// body(first, count) over R rows, in blocks of which `widest` columns fit in cache.
template <typename Body>
void each_block(int64_t R, int64_t widest, const Body& body) {
  const int64_t block = std::max<int64_t>(64, context().sizes.block / std::max<int64_t>(widest, 1));
  for (int64_t first = 0; first < R; first += block) body(first, std::min(block, R - first));
}

// The tensors of a norm or of a linear layer.
struct Weights {
  Tensor weight, bias, panels{};
};
Tensor optional_value(const Var& x) { return x.defined() ? x.value() : Tensor(); }
Weights values(const NormVars& norm) {
  return {optional_value(norm.weight), optional_value(norm.bias)};
}
Weights values(const LinearVars& linear) {
  return {optional_value(linear.weight), optional_value(linear.bias), linear.panels};
}

// Their gradients, summed over blocks of rows; undefined before the first block.
struct Gradients {
  Tensor weight, bias;
};
void add_to(Tensor& sum, const Tensor& x) {
  if (!sum.defined()) {
    sum = x;
  } else {
    ops::accumulate(x, sum);
  }
}

// The rows of a result, written block by block; a block of all rows becomes the result itself.
class RowBlocks {
 public:
  explicit RowBlocks(const Shape& shape) : shape_(shape) {}
  // rows [first, ...) = block [count,C], plus `addend` where that is defined
  void put(const Tensor& block, int64_t first, const Tensor& addend = {}) {
    const bool whole = block.shape() == shape_;
    if (!all_.defined()) all_ = whole ? block : Tensor(shape_, block.dtype());
    const Tensor rows = whole ? all_ : all_.rows(first, block.size(0));
    if (addend.defined()) {
      ops::add_into(addend, block, rows);
    } else if (!whole) {
      ops::copy_into(block, rows);
    }
  }
  Tensor take(DType dtype) const { return all_.defined() ? all_ : Tensor(shape_, dtype); }

 private:
  Shape shape_;
  Tensor all_;
};

void push(std::vector<Var>& inputs, const Var& weight, const Var& bias) {
  inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
}
void push(std::vector<Gradient>& gradients, const Gradients& grads, const Weights& of) {
  const auto whole = [](const Tensor& grad, const Tensor& x) {
    return grad.defined() ? grad : Tensor::zeros(x.shape(), x.dtype());
  };
  gradients.emplace_back(whole(grads.weight, of.weight));
  if (of.bias.defined()) gradients.emplace_back(whole(grads.bias, of.bias));
}

// y = r + f(n(x) W^T + b), f gelu or the identity, n a norm or the identity; r may be undefined
void apply_linear(const Tensor& x, const Weights& n, const Weights& linear, const Tensor& y,
                  bool gelu = false, const Tensor& r = {}) {
  if (!linear.panels.defined())
    return ops::linear_into(x, {n.weight, n.bias}, linear.weight, linear.bias, gelu, r, y);
  const Tensor from = n.weight.defined() ? ops::layer_norm(x, n.weight, n.bias).y : x;
  ops::panel_matmul_into(from, linear.panels, linear.bias, y);
  if (gelu) ops::pointwise_into(Pointwise::gelu, y, y);
  if (r.defined()) ops::add_into(r, y, y);
}

// y = r + drop(x W^T + b), of the elements `first` and on of a larger result; r may be undefined
void apply_residual(const Tensor& r, const Tensor& x, const Weights& linear, float rate,
                    uint32_t stream_id, int64_t first, const Tensor& y) {
  if (rate == 0) return apply_linear(x, {}, linear, y, false, r);
  const Tensor branch = r.defined() ? Tensor(y.shape(), y.dtype()) : y;
  apply_linear(x, {}, linear, branch);
  ops::dropout_into(branch, rate, stream_id, first, branch);
  if (r.defined()) ops::add_into(r, branch, y);
}

// dW += dy^T x, db += sum_r dy_r
void add_linear_gradients(const Tensor& x, const Tensor& dy, const Weights& linear,
                          Gradients& grads) {
  const bool first = !grads.weight.defined();
  if (first) grads.weight = Tensor(linear.weight.shape(), x.dtype());
  ops::matmul_into(dy, x, true, false, grads.weight, first ? 0 : 1);
  if (linear.bias.defined()) add_to(grads.bias, ops::sum_rows(dy, linear.bias.shape()));
}

// dx of y = norm(x); adds to the gradients of the norm.
Tensor norm_backward(const Tensor& x, const Weights& norm, const ops::LayerNorm& normed,
                     const Tensor& dy, Gradients& grads) {
  const ops::LayerNormGradient d =
      ops::layer_norm_backward(x, norm.weight, norm.bias.defined(), normed, dy);
  add_to(grads.weight, d.dweight);
  if (norm.bias.defined()) add_to(grads.bias, d.dbias);
  return d.dx;
}

}  // namespace

// n = norm(x), y = n W^T + b;  dW = dy^T n, db = sum_r dy_r, dn = dy W, dx from dn by the norm's
// backward
Var norm_linear(const Var& x, const NormVars& norm, const LinearVars& linear) {
  const Tensor rows = flat(x.value());
  const Weights n = values(norm), w = values(linear);
  const int64_t R = rows.size(0), out = w.weight.size(0);
  const Tensor y(x.shape().with(-1, out), rows.dtype()), y_rows = flat(y);
  each_block(R, out, [&](int64_t first, int64_t count) {
    apply_linear(rows.rows(first, count), n, w, y_rows.rows(first, count));
  });
  std::vector<Var> inputs = {x};
  push(inputs, norm.weight, norm.bias);
  push(inputs, linear.weight, linear.bias);
  return Var::from_op(
      "norm_linear", y, inputs, [rows, n, w, R, out, shape = x.shape()](const Tensor& dy) {
        Gradients dn, dw;
        RowBlocks dx(rows.shape());
        const Tensor dy_rows = flat(dy);
        each_block(R, out, [&](int64_t first, int64_t count) {
          const Tensor from = rows.rows(first, count), grad = dy_rows.rows(first, count);
          const ops::LayerNorm normed = ops::layer_norm(from, n.weight, n.bias);
          add_linear_gradients(normed.y, grad, w, dw);
          dx.put(norm_backward(from, n, normed, ops::matmul(grad, w.weight), dn), first);
        });
        std::vector<Gradient> gradients = {dx.take(rows.dtype()).reshape(shape)};
        push(gradients, dn, n);
        push(gradients, dw, w);
        return gradients;
      });
}

// y = r + drop(x W^T + b), r may be undefined: 0;  dr = dy, ds = drop(dy), dW = ds^T x, db = sum_r
// ds_r, dx = ds W
Var add_linear(const Var& residual, const Var& x, const LinearVars& linear, float rate,
               uint32_t stream_id) {
  const Tensor rows = flat(x.value()), r = residual.defined() ? flat(residual.value()) : Tensor();
  const Weights w = values(linear);
  const int64_t R = rows.size(0), out = w.weight.size(0);
  const Shape shape = x.shape().with(-1, out);
  if (r.defined()) ops::require_shape("add_linear", "residual", residual.value(), shape);
  const Tensor y(shape, rows.dtype()), y_rows = flat(y);
  each_block(R, out, [&](int64_t first, int64_t count) {
    apply_residual(r.defined() ? r.rows(first, count) : r, rows.rows(first, count), w, rate,
                   stream_id, first * out, y_rows.rows(first, count));
  });
  std::vector<Var> inputs = {x};
  if (r.defined()) inputs.insert(inputs.begin(), residual);
  push(inputs, linear.weight, linear.bias);
  return Var::from_op(
      "add_linear", y, inputs,
      [rows, w, rate, stream_id, adds = r.defined(), shape = x.shape()](const Tensor& dy) {
        Gradients dw;
        Tensor grad = flat(dy);
        if (rate > 0) grad = ops::dropout(grad, rate, stream_id);
        add_linear_gradients(rows, grad, w, dw);
        std::vector<Gradient> gradients;
        if (adds) gradients.emplace_back(dy);
        gradients.emplace_back(ops::matmul(grad, w.weight).reshape(shape));
        push(gradients, dw, w);
        return gradients;
      });
}

// u = norm(x) U^T + a, h = gelu(u), y = (x +) drop(h D^T + b);  with ds = drop(dy):
// dD = ds^T h, db = sum_r ds_r, du = gelu'(u) (ds D), dU = du^T norm(x), da = sum_r du_r,
// dx = (dy +) the norm's of du U
Var feed_forward(const Var& x, const NormVars& norm, const LinearVars& up, const LinearVars& down,
                 float rate, uint32_t stream_id, bool adds) {
  const Tensor rows = flat(x.value());
  const Weights n = values(norm), w_up = values(up), w_down = values(down);
  const int64_t R = rows.size(0), C = rows.size(1), wide = w_up.weight.size(0);
  std::vector<Var> inputs = {x};
  push(inputs, norm.weight, norm.bias);
  push(inputs, up.weight, up.bias);
  push(inputs, down.weight, down.bias);
  const bool saves = Var::gradients_needed(inputs);
  const Tensor y(x.shape(), rows.dtype()), y_rows = flat(y), u({R, wide}, rows.dtype());
  each_block(R, wide, [&](int64_t first, int64_t count) {
    const Tensor from = rows.rows(first, count), hidden = u.rows(first, count);
    apply_linear(from, n, w_up, hidden, !saves);
    const Tensor h = saves ? ops::pointwise(Pointwise::gelu, hidden) : hidden;
    apply_residual(adds ? from : Tensor(), h, w_down, rate, stream_id, first * C,
                   y_rows.rows(first, count));
  });
  return Var::from_op(
      adds ? "add_feed_forward" : "feed_forward", y, inputs,
      [=, shape = x.shape()](const Tensor& dy) {
        Gradients dn, dw_up, dw_down;
        RowBlocks dx(rows.shape());
        const Tensor dy_rows = flat(dy);
        each_block(R, wide, [&](int64_t first, int64_t count) {
          const Tensor from = rows.rows(first, count), dto = dy_rows.rows(first, count);
          Tensor grad = dto;
          if (rate > 0) {
            grad = Tensor(dto.shape(), dto.dtype());
            ops::dropout_into(dto, rate, stream_id, first * C, grad);
          }
          const Tensor du = ops::matmul(grad, w_down.weight), hidden = u.rows(first, count);
          const Tensor h(hidden.shape(), hidden.dtype());
          ops::gelu_recompute(hidden, h, du);
          add_linear_gradients(h, grad, w_down, dw_down);
          const ops::LayerNorm normed = ops::layer_norm(from, n.weight, n.bias);
          add_linear_gradients(normed.y, du, w_up, dw_up);
          dx.put(norm_backward(from, n, normed, ops::matmul(du, w_up.weight), dn), first,
                 adds ? dto : Tensor());
        });
        std::vector<Gradient> gradients = {dx.take(rows.dtype()).reshape(shape)};
        push(gradients, dn, n);
        push(gradients, dw_up, w_up);
        push(gradients, dw_down, w_down);
        return gradients;
      });
}

}  // namespace linea
