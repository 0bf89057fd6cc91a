#include <array>
#include <vector>

#include "autograd/ops.h"
#include "tensor/context.h"
#include "tensor/ops.h"
#include "tensor/packed_weight.h"
#include "tensor/schedule.h"

namespace linea {
namespace {

// x [...,C] as rows [R,C].
Tensor flat(const Tensor& x) { return x.reshape({x.numel() / x.size(-1), x.size(-1)}); }

// Rows of a saved tensor, in the dtype in which it was computed.
Tensor restored(const Tensor& saved, int64_t first, int64_t count, DType dtype) {
  return ops::cast(saved.rows(first, count), dtype);
}

void add_to(Tensor& sum, const Tensor& x) { sum = sum.defined() ? ops::add(sum, x) : x; }

// The tensors of a norm or of a linear layer, undefined where it has none.
struct Layer {
  Layer(const LinearVars& vars)  // NOLINT: implicit
      : weight(vars.weight.value_or_none()), bias(vars.bias.value_or_none()), panels(vars.panels) {}
  Tensor weight, bias, panels;
};

// A layer in one pass over blocks of rows: its weight as one thread's products pack it, and in a
// backward pass the gradients of its parameters, summed over blocks.
struct LayerPass {
  // `part` may lose its own.
  void add_gradients(const LayerPass& part) {
    for (const auto& [sum, x] : {std::pair(&dweight, part.dweight), {&dbias, part.dbias}}) {
      if (sum->defined() && x.defined()) ops::accumulate(x, *sum);
      if (!sum->defined()) *sum = x;
    }
  }
  const Layer* of = nullptr;
  PackedWeight* packed = nullptr;
  Tensor dweight{}, dbias{};
};

// R rows, in blocks of which `widest` columns fit in cache, for a pass of an op in one direction. All
// multiply by the weights of the layers, which do not change: a thread packs each once. The rows
// form groups with gradients of their own, which are added in order. Their number is a power of two
// that depends on the sizes alone: a product of few rows may have another kernel, and so other bits,
// than one of many. The gradients of all groups take at most half of R x widest.
template <size_t n>
class RowBlocks {
 public:
  RowBlocks(int64_t R, int64_t widest, const std::array<Layer, n>& layers)
      : rows_(R),
        block_(std::max<int64_t>(64, context().sizes.block / std::max<int64_t>(widest, 1))),
        layers_(layers),
        groups_(Schedule::of_sums(max_groups(R * widest, layers))),
        of_others_(static_cast<size_t>(groups_.threads() - 1)) {}

  // body(first, count, passes of the layers) for all blocks. Returns the passes with the sums of the
  // gradients that bodies add to theirs.
  template <typename Body>
  std::array<LayerPass, n> each(const Body& body) {
    std::array<LayerPass, n> sums;
    std::vector<std::array<LayerPass, n>> others(static_cast<size_t>(groups_.pieces() - 1));
    groups_.each([&](int64_t group, int thread) {
      std::array<LayerPass, n>& own = group == 0 ? sums : others[static_cast<size_t>(group - 1)];
      std::array<PackedWeight, n>& packed =
          thread == 0 ? packed_ : of_others_[static_cast<size_t>(thread - 1)];
      for (size_t i = 0; i < n; ++i) own[i] = {&layers_[i], &packed[i]};
      const int64_t end = first_of(group + 1);
      for (int64_t first = first_of(group); first < end; first += block_)
        body(first, std::min(block_, end - first), own);
    });
    for (std::array<LayerPass, n>& group : others) {
      for (size_t i = 0; i < n; ++i) sums[i].add_gradients(group[i]);
      group = {};
    }
    return sums;
  }

 private:
  static int64_t max_groups(int64_t elements, const std::array<Layer, n>& layers) {
    constexpr int64_t kMax = 16;
    int64_t size = 1, groups = 1;
    for (const Layer& layer : layers)
      if (layer.weight.defined() && layer.weight.shape().rank() == 2) size += layer.weight.numel();
    while (groups < kMax && 4 * groups * size <= elements) groups *= 2;
    return groups;
  }
  // Products compute 8 rows at a time.
  int64_t first_of(int64_t group) const {
    return group == groups_.pieces() ? rows_ : rows_ * group / groups_.pieces() / 8 * 8;
  }

  int64_t rows_, block_;
  const std::array<Layer, n>& layers_;
  Schedule groups_;
  // By thread; that of the first, and its part of the sums, need no allocation: a step of sampling has
  // no others.
  std::array<PackedWeight, n> packed_;
  std::vector<std::array<PackedWeight, n>> of_others_;
};

// The inputs of an op on x: x and the parameters of its layers; and the gradients of these.
std::vector<Var> inputs_of(const Var& x, std::initializer_list<LinearVars> layers) {
  std::vector<Var> inputs = {x};
  for (const LinearVars& layer : layers)
    for (const Var& parameter : {layer.weight, layer.bias})
      if (parameter.defined()) inputs.push_back(parameter);
  return inputs;
}
template <size_t n>
Gradients gradients_of(const Tensor& dx, const std::array<LayerPass, n>& layers) {
  Gradients gradients(dx);
  const auto push = [&](const Tensor& grad, const Tensor& x) {
    if (x.defined())
      gradients.emplace_back(grad.defined() ? grad : Tensor::zeros(x.shape(), x.dtype()));
  };
  for (const LayerPass& layer : layers) {
    push(layer.dweight, layer.of->weight);
    push(layer.dbias, layer.of->bias);
  }
  return gradients;
}

// A residual as rows; undefined where there is none.
Tensor flat_residual(const char* op, const Var& residual, const Shape& shape) {
  if (!residual.defined()) return {};
  ops::require_shape(op, "residual", residual.value(), shape);
  return flat(residual.value());
}

// y = r + f(n(x) W^T + b), f gelu or the identity, n a norm or, null, the identity; r may be undefined.
// u, unless undefined, stores the input of gelu.
void apply_linear(const Tensor& x, const LayerPass* n, const LayerPass& linear, const Tensor& y,
                  bool gelu = false, const Tensor& r = {}, const Tensor& u = {}) {
  const Layer& w = *linear.of;
  const ops::Norm norm = n == nullptr ? ops::Norm{} : ops::Norm{n->of->weight, n->of->bias};
  if (!w.panels.defined())
    return ops::linear_into(x, norm, {w.weight, w.bias, linear.packed}, gelu, r, y, u);
  const Tensor from = norm.weight.defined() ? ops::layer_norm(x, norm.weight, norm.bias).y : x;
  ops::panel_matmul_into(from, w.panels, w.bias, y);
  if (gelu) ops::pointwise_into(Pointwise::gelu, y, y);
  if (r.defined()) ops::add_into(r, y, y);
}

// y = r + drop(x W^T + b) in the rows `first` and on of all_y, of which x has the inputs; all_r may
// be undefined
void apply_residual(const Tensor& all_r, const Tensor& x, const LayerPass& linear,
                    const Dropout& drop, int64_t first, const Tensor& all_y) {
  const Tensor y = all_y.rows(first, x.size(0)),
               r = all_r.defined() ? all_r.rows(first, x.size(0)) : all_r;
  if (drop.rate == 0) return apply_linear(x, nullptr, linear, y, false, r);
  const Tensor branch = r.defined() ? Tensor(y.shape(), y.dtype()) : y;
  apply_linear(x, nullptr, linear, branch);
  ops::dropout_into(branch, drop.rate, drop.stream_id, first * y.size(1), branch);
  if (r.defined()) ops::add_into(r, branch, y);
}

// drop(dy) of the rows first .. first + count - 1.
Tensor dropped(const Tensor& dy, const Dropout& drop, int64_t first, int64_t count) {
  const Tensor rows = dy.rows(first, count);
  if (drop.rate == 0) return rows;
  const Tensor result(rows.shape(), rows.dtype());
  ops::dropout_into(rows, drop.rate, drop.stream_id, first * dy.size(1), result);
  return result;
}

// dW += dy^T x, db += sum_r dy_r
void add_linear_gradients(const Tensor& x, const Tensor& dy, LayerPass& linear) {
  const bool first = !linear.dweight.defined();
  if (first) linear.dweight = Tensor(linear.of->weight.shape(), x.dtype());
  ops::matmul_into(dy, x, true, false, linear.dweight, first ? 0 : 1);
  const Tensor& bias = linear.of->bias;
  if (bias.defined()) add_to(linear.dbias, ops::sum_rows(dy, bias.shape()));
}

// dx = dy W, written to `given` if that is defined.
Tensor input_gradient(const Tensor& dy, const LayerPass& linear, const Tensor& given = {}) {
  const Tensor& weight = linear.of->weight;
  const Tensor dx = given.defined() ? given : Tensor({dy.size(0), weight.size(1)}, dy.dtype());
  ops::matmul_into(dy, weight, false, false, dx, 0, linear.packed);
  return dx;
}

// dx of y = linear(norm(x)); adds to the gradients of both.
void norm_linear_backward(const Tensor& x, const Tensor& dy, LayerPass& norm, LayerPass& linear,
                          const Tensor& dx) {
  const Layer& n = *norm.of;
  const ops::LayerNorm normed = ops::layer_norm(x, n.weight, n.bias);
  add_linear_gradients(normed.y, dy, linear);
  const ops::LayerNormGradient d = ops::layer_norm_backward(x, n.weight, n.bias.defined(), normed,
                                                            input_gradient(dy, linear), dx);
  add_to(norm.dweight, d.dweight);
  if (n.bias.defined()) add_to(norm.dbias, d.dbias);
}

}  // namespace

// n = norm(x), y = n W^T + b;  dW = dy^T n, db = sum_r dy_r, dn = dy W, dx from dn by the norm's
// backward
Var norm_linear(const Var& x, const NormVars& norm, const LinearVars& linear) {
  const Tensor rows = flat(x.value());
  const std::array<Layer, 2> layers = {norm, linear};
  const int64_t R = rows.size(0), out = layers[1].weight.size(0);
  const Tensor y(x.shape().with(-1, out), rows.dtype()), y_rows = flat(y);
  RowBlocks(R, out, layers).each([&](int64_t first, int64_t count, const auto& own) {
    apply_linear(rows.rows(first, count), &own[0], own[1], y_rows.rows(first, count));
  });
  return Var::from_op(
      "norm_linear", y, inputs_of(x, {norm, linear}),
      [=, shape = x.shape(), dtype = x.dtype(), saved = flat(x.saved())](const Tensor& dy) {
        const Tensor dx(saved.shape(), dtype), dy_rows = flat(dy);
        RowBlocks blocks(R, out, layers);
        const auto sums = blocks.each([&](int64_t first, int64_t count, auto& own) {
          norm_linear_backward(restored(saved, first, count, dtype), dy_rows.rows(first, count),
                               own[0], own[1], dx.rows(first, count));
        });
        return gradients_of(dx.reshape(shape), sums);
      });
}

// y = r + drop(x W^T + b), r may be undefined: 0;  dr = dy, ds = drop(dy), dW = ds^T x, db = sum_r
// ds_r, dx = ds W
Var add_linear(const Var& residual, const Var& x, const LinearVars& linear, const Dropout& drop) {
  const std::array<Layer, 1> layers = {linear};
  const int64_t out = layers[0].weight.size(0);
  const Shape shape = x.shape().with(-1, out);
  const Tensor rows = flat(x.value()), r = flat_residual("add_linear", residual, shape);
  const int64_t R = rows.size(0);
  const Tensor y(shape, rows.dtype()), y_rows = flat(y);
  RowBlocks(R, out, layers).each([&](int64_t first, int64_t count, const auto& own) {
    apply_residual(r, rows.rows(first, count), own[0], drop, first, y_rows);
  });
  std::vector<Var> inputs = inputs_of(x, {linear});
  const bool adds = r.defined(), needs_x = x.requires_grad();
  if (adds) inputs.push_back(residual);
  return Var::from_op(
      "add_linear", y, inputs, [=, shape = x.shape(), saved = flat(x.saved())](const Tensor& dy) {
        const Tensor dx = needs_x ? Tensor(saved.shape(), dy.dtype()) : Tensor(),
                     dy_rows = flat(dy);
        RowBlocks blocks(R, out, layers);
        const auto sums = blocks.each([&](int64_t first, int64_t count, auto& own) {
          const Tensor ds = dropped(dy_rows, drop, first, count);
          add_linear_gradients(restored(saved, first, count, dy.dtype()), ds, own[0]);
          if (needs_x) input_gradient(ds, own[0], dx.rows(first, count));
        });
        Gradients gradients = gradients_of(needs_x ? dx.reshape(shape) : dx, sums);
        if (adds) gradients.emplace_back(dy);
        return gradients;
      });
}

// z = n(y) silu(g), x = r + drop(z W^T + b), n the RMS norm of each head, or the identity; r may be
// undefined: 0;  with ds = drop(dx): dr = dx, dW = ds^T z, db = sum_r ds_r, dz = ds W; dy, dg and dn
// of dz by the gated norm's backward. z is computed again.
Var add_gated_linear(const Var& residual, const Var& y, const Var& norm, const Var& gate,
                     int64_t heads, const LinearVars& linear, const Dropout& drop) {
  const NormVars norm_vars{norm, {}};
  const std::array<Layer, 2> layers = {norm_vars, linear};
  const Shape shape = y.shape().with(-1, layers[1].weight.size(0));
  ops::require_shape("add_gated_linear", "gate", gate.value(), y.shape());
  const Tensor rows = flat(y.value()), gates = flat(gate.value()), n = layers[0].weight,
               r = flat_residual("add_gated_linear", residual, shape);
  const int64_t R = rows.size(0), widest = std::max(shape[-1], rows.size(1));
  const DType dtype = rows.dtype();
  const Tensor x(shape, dtype), x_rows = flat(x);
  RowBlocks(R, widest, layers).each([&](int64_t first, int64_t count, const auto& own) {
    const Tensor z = ops::gated_norm(rows.rows(first, count), n, gates.rows(first, count), heads);
    apply_residual(r, z, own[1], drop, first, x_rows);
  });
  std::vector<Var> inputs = inputs_of(y, {norm_vars, linear});
  inputs.push_back(gate);
  if (r.defined()) inputs.push_back(residual);
  return Var::from_op("add_gated_linear", x, inputs,
                      [=, shape = y.shape(), adds = r.defined(), saved = flat(y.saved()),
                       saved_gates = flat(gate.saved())](const Tensor& dx) {
                        const Tensor dy(saved.shape(), dtype), dgate(saved.shape(), dtype),
                            dx_rows = flat(dx);
                        RowBlocks blocks(R, widest, layers);
                        const auto sums = blocks.each([&](int64_t first, int64_t count, auto& own) {
                          const Tensor from = restored(saved, first, count, dtype),
                                       g = restored(saved_gates, first, count, dtype),
                                       ds = dropped(dx_rows, drop, first, count);
                          add_linear_gradients(ops::gated_norm(from, n, g, heads), ds, own[1]);
                          const ops::GatedNormGradient d = ops::gated_norm_backward(
                              from, n, g, heads, input_gradient(ds, own[1]));
                          ops::copy_into(d.dy, dy.rows(first, count));
                          ops::copy_into(d.dg, dgate.rows(first, count));
                          if (n.defined()) add_to(own[0].dweight, d.dweight);
                        });
                        Gradients gradients = gradients_of(dy.reshape(shape), sums);
                        gradients.emplace_back(dgate.reshape(shape));
                        if (adds) gradients.emplace_back(dx);
                        return gradients;
                      });
}

// u = norm(x) U^T + a, h = gelu(u), y = r + drop(h D^T + b), r may be undefined: 0;  with ds = drop(dy):
// dr = dy, dD = ds^T h, db = sum_r ds_r, du = gelu'(u) (ds D), dU = du^T norm(x), da = sum_r du_r,
// dx = the norm's of du U
Var add_feed_forward(const Var& residual, const Var& x, const NormVars& norm, const LinearVars& up,
                     const LinearVars& down, const Dropout& drop) {
  const Tensor rows = flat(x.value()), r = flat_residual("add_feed_forward", residual, x.shape());
  const std::array<Layer, 3> layers = {norm, up, down};
  const int64_t R = rows.size(0), wide = layers[1].weight.size(0);
  std::vector<Var> inputs = inputs_of(x, {norm, up, down});
  if (r.defined()) inputs.push_back(residual);
  const bool saves = Var::gradients_needed(inputs), adds = r.defined();
  const DType dtype = rows.dtype();
  const Tensor y(x.shape(), dtype), y_rows = flat(y),
                                    u = saves ? Tensor({R, wide}, saved_dtype(dtype)) : Tensor();
  RowBlocks(R, wide, layers).each([&](int64_t first, int64_t count, const auto& own) {
    const Tensor h({count, wide}, dtype), to_save = saves ? u.rows(first, count) : u;
    apply_linear(rows.rows(first, count), &own[0], own[1], h, true, {}, to_save);
    apply_residual(r, h, own[2], drop, first, y_rows);
  });
  return Var::from_op("add_feed_forward", y, inputs,
                      [=, shape = x.shape(), saved = flat(x.saved())](const Tensor& dy) {
                        const Tensor dx(saved.shape(), dtype), dy_rows = flat(dy);
                        RowBlocks blocks(R, wide, layers);
                        const auto sums = blocks.each([&](int64_t first, int64_t count, auto& own) {
                          const Tensor ds = dropped(dy_rows, drop, first, count),
                                       hidden = restored(u, first, count, dtype),
                                       du = input_gradient(ds, own[2]),
                                       h(hidden.shape(), hidden.dtype());
                          ops::gelu_recompute(hidden, h, du);
                          add_linear_gradients(h, ds, own[2]);
                          norm_linear_backward(restored(saved, first, count, dtype), du, own[0],
                                               own[1], dx.rows(first, count));
                        });
                        Gradients gradients = gradients_of(dx.reshape(shape), sums);
                        if (adds) gradients.emplace_back(dy);
                        return gradients;
                      });
}

}  // namespace linea
