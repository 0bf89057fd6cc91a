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

// Rows [first, first + count), of an undefined tensor none.
struct Block {
  Tensor of(const Tensor& x) const { return x.defined() ? x.rows(first, count) : x; }
  int64_t first, count;
};

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

  // body(block, passes of the layers) for all blocks. Returns the passes with the sums of the
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
        body(Block{first, std::min(block_, end - first)}, own);
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

// drop(dy) of a block of rows.
Tensor dropped(const Tensor& dy, const Dropout& drop, const Block& block) {
  const Tensor rows = block.of(dy);
  if (drop.rate == 0) return rows;
  const Tensor result(rows.shape(), rows.dtype());
  ops::dropout_into(rows, drop.rate, drop.stream_id, block.first * dy.size(1), result);
  return result;
}

// The inputs of an op: xs, whose rows it reads, the parameters of its layers and a residual; these may be
// undefined.
std::vector<Var> inputs_of(std::vector<Var> xs, std::initializer_list<LinearVars> layers,
                           const Var& residual = {}) {
  for (const LinearVars& layer : layers) xs.insert(xs.end(), {layer.weight, layer.bias});
  xs.push_back(residual);
  return xs;
}

// A block in a backward pass: ds = drop(dy), the rows of x as they were computed, and where those of dx are
// written, undefined where it is not needed.
struct BlockBack : Block {
  Tensor x(size_t i = 0) const { return ops::cast(of(flat(saved[i].first)), ds.dtype()); }
  Tensor dx(size_t i = 0) const { return dxs[i].defined() ? of(flat(dxs[i])) : dxs[i]; }
  Tensor ds;
  const std::vector<std::pair<Tensor, bool>>& saved;  // and whether dx is needed
  const std::vector<Tensor>& dxs;
};

// The op whose rows y are written by forward(block, passes of the layers). back(block, passes) adds the
// gradients of the parameters and writes those of the first `xs` inputs, which are saved. That of a
// residual, the last input, is dy.
template <size_t n, typename Forward, typename Back>
Var row_op(const char* op, const Tensor& y, const std::vector<Var>& inputs, size_t xs,
           int64_t widest, const std::array<Layer, n>& layers, const Dropout& drop,
           const Forward& forward, const Back& back) {
  const int64_t R = flat(y).size(0);
  RowBlocks(R, widest, layers).each(forward);
  if (!Var::gradients_needed(inputs)) return Var::from_op(op, y, inputs, nullptr);
  std::vector<std::pair<Tensor, bool>> saved;
  for (size_t i = 0; i < xs; ++i) saved.emplace_back(inputs[i].saved(), inputs[i].requires_grad());
  return Var::from_op(op, y, inputs, [=](const Tensor& dy) {
    std::vector<Tensor> dxs;
    for (const auto& [x, needs] : saved)
      dxs.push_back(needs ? Tensor(x.shape(), dy.dtype()) : Tensor());
    RowBlocks blocks(R, widest, layers);
    const auto sums = blocks.each([&](const Block& block, auto& own) {
      back(BlockBack{block, dropped(flat(dy), drop, block), saved, dxs}, own);
    });
    Gradients gradients(std::vector<Gradient>(dxs.begin(), dxs.end()));
    for (const auto& [of, packed, dweight, dbias] : sums)
      for (const auto& [x, dx] : {std::pair(of->weight, dweight), {of->bias, dbias}})
        gradients.emplace_back(x.defined() && !dx.defined() ? Tensor::zeros(x.shape(), x.dtype())
                                                            : dx);
    gradients.emplace_back(dy);
    return gradients;
  });
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

// y = r + drop(x W^T + b) in a block of all_y, of which x has the inputs; all_r may be undefined
void apply_residual(const Tensor& all_r, const Tensor& x, const LayerPass& linear,
                    const Dropout& drop, const Block& block, const Tensor& all_y) {
  const Tensor y = block.of(all_y), r = block.of(all_r);
  if (drop.rate == 0) return apply_linear(x, nullptr, linear, y, false, r);
  const Tensor branch = r.defined() ? Tensor(y.shape(), y.dtype()) : y;
  apply_linear(x, nullptr, linear, branch);
  ops::dropout_into(branch, drop.rate, drop.stream_id, block.first * y.size(1), branch);
  if (r.defined()) ops::add_into(r, branch, y);
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
  const std::array<Layer, 2> layers = {norm, linear};
  const int64_t out = layers[1].weight.size(0);
  const Tensor rows = flat(x.value()), y(x.shape().with(-1, out), rows.dtype()), y_rows = flat(y);
  return row_op(
      "norm_linear", y, inputs_of({x}, {norm, linear}), 1, out, layers, {},
      [&](const Block& block, const auto& own) {
        apply_linear(block.of(rows), &own[0], own[1], block.of(y_rows));
      },
      [](const BlockBack& block, auto& own) {
        norm_linear_backward(block.x(), block.ds, own[0], own[1], block.dx());
      });
}

// y = r + drop(x W^T + b), r may be undefined: 0;  dr = dy, ds = drop(dy), dW = ds^T x, db = sum_r
// ds_r, dx = ds W
Var add_linear(const Var& residual, const Var& x, const LinearVars& linear, const Dropout& drop) {
  const std::array<Layer, 1> layers = {linear};
  const int64_t out = layers[0].weight.size(0);
  const Shape shape = x.shape().with(-1, out);
  const Tensor rows = flat(x.value()), r = flat_residual("add_linear", residual, shape),
               y(shape, rows.dtype()), y_rows = flat(y);
  return row_op(
      "add_linear", y, inputs_of({x}, {linear}, residual), 1, out, layers, drop,
      [&](const Block& block, const auto& own) {
        apply_residual(r, block.of(rows), own[0], drop, block, y_rows);
      },
      [](const BlockBack& block, auto& own) {
        add_linear_gradients(block.x(), block.ds, own[0]);
        const Tensor dx = block.dx();
        if (dx.defined()) input_gradient(block.ds, own[0], dx);
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
               r = flat_residual("add_gated_linear", residual, shape), x(shape, rows.dtype()),
               x_rows = flat(x);
  return row_op(
      "add_gated_linear", x, inputs_of({y, gate}, {norm_vars, linear}, residual), 2,
      std::max(shape[-1], rows.size(1)), layers, drop,
      [&](const Block& block, const auto& own) {
        const Tensor z = ops::gated_norm(block.of(rows), n, block.of(gates), heads);
        apply_residual(r, z, own[1], drop, block, x_rows);
      },
      [n, heads](const BlockBack& block, auto& own) {
        const Tensor from = block.x(0), g = block.x(1);
        add_linear_gradients(ops::gated_norm(from, n, g, heads), block.ds, own[1]);
        const ops::GatedNormGradient d =
            ops::gated_norm_backward(from, n, g, heads, input_gradient(block.ds, own[1]));
        for (const auto& [to, of] : {std::pair(block.dx(0), d.dy), {block.dx(1), d.dg}})
          if (to.defined()) ops::copy_into(of, to);
        if (n.defined()) add_to(own[0].dweight, d.dweight);
      });
}

// u = norm(x) U^T + a, h = gelu(u), y = r + drop(h D^T + b), r may be undefined: 0;  with ds = drop(dy):
// dr = dy, dD = ds^T h, db = sum_r ds_r, du = gelu'(u) (ds D), dU = du^T norm(x), da = sum_r du_r,
// dx = the norm's of du U
Var add_feed_forward(const Var& residual, const Var& x, const NormVars& norm, const LinearVars& up,
                     const LinearVars& down, const Dropout& drop) {
  const Tensor rows = flat(x.value()), r = flat_residual("add_feed_forward", residual, x.shape());
  const std::array<Layer, 3> layers = {norm, up, down};
  const int64_t wide = layers[1].weight.size(0);
  const std::vector<Var> inputs = inputs_of({x}, {norm, up, down}, residual);
  const DType dtype = rows.dtype();
  const Tensor y(x.shape(), dtype), y_rows = flat(y);
  Tensor u;
  if (Var::gradients_needed(inputs)) u = Tensor({rows.size(0), wide}, saved_dtype(dtype));
  return row_op(
      "add_feed_forward", y, inputs, 1, wide, layers, drop,
      [&](const Block& block, const auto& own) {
        const Tensor h({block.count, wide}, dtype);
        apply_linear(block.of(rows), &own[0], own[1], h, true, {}, block.of(u));
        apply_residual(r, h, own[2], drop, block, y_rows);
      },
      [u](const BlockBack& block, auto& own) {
        const Tensor hidden = ops::cast(block.of(u), block.ds.dtype()),
                     du = input_gradient(block.ds, own[2]), h(hidden.shape(), hidden.dtype());
        ops::gelu_recompute(hidden, h, du);
        add_linear_gradients(h, block.ds, own[2]);
        norm_linear_backward(block.x(), du, own[0], own[1], block.dx());
      });
}

}  // namespace linea
