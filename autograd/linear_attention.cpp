#include "autograd/linear_attention.h"

#include <limits>

#include "autograd/ops.h"

namespace linea {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// S, z and their scales of one tile, or the gradients of these.
struct TileState {
  TileState(const Plan& plan, const Tile& tile, int64_t values, DType dtype, bool scaled)
      : state(Tensor::zeros({tile.batch_heads, plan.features, values}, dtype)),
        key_sum(Tensor::zeros({tile.batch_heads, plan.features}, dtype)) {
    if (scaled) scale = Tensor::full({tile.batch_heads, plan.features}, dtype, kNothing);
  }
  template <typename A>
  ChunkState<A> view() const {
    return {state.data<A>(), key_sum.data<A>(), pointer<A>(scale)};
  }
  Tensor state, key_sum, scale;
};

// Log weights and log decays [B,H,N] of a gate.
struct Gates {
  Tensor weight, decay;
};

// The forward and the backward pass of one call.
template <typename T>
class LinearPass {
  using A = Accumulator<T>;

 public:
  LinearPass(const FeatureMap& map, const Heads& in, const Gates& gates,
             const LinearAttentionOptions& options)
      : map_(map),
        plan_(map, in.q, in.v, options, map.in_kernel()),
        in_(in),
        dtype_(in.v.data.dtype()),
        sums_(sum_dtype(dtype_)),
        gates_(gates),
        options_(options),
        scaled_(map.kind() == FeatureKind::logs || map.weighs_keys() || gates.weight.defined()) {}

  struct Saved {
    Tensor denominator, scale;  // [BH,N]
  };

  void forward(const HeadTensor& y, Saved& saved) const {
    saved.denominator = Tensor({plan_.batch_heads, plan_.length}, sums_);
    if (scaled_) saved.scale = Tensor({plan_.batch_heads, plan_.length}, sums_);
    for (const Tile& tile : plan_.tiles()) {
      const TileState running(plan_, tile, plan_.values, sums_, scaled_);
      sweep(tile, false,
            [&](const Tile& segment, const ChunkShape& shape, bool with_q, bool with_k) {
              SideRows q, k;
              if (with_q) q = make(in_.q, Side::query, segment);
              if (with_k) k = make(in_.k, Side::key, segment);
              table().chunk_forward(context(), shape, input(q, k, segment), running.view<A>(),
                                    plan_.template rows<T>(y, segment), saved_rows(saved, segment));
            });
    }
  }

  // dq, dk, dv into `gradients`; the gradient of the weights where there are gates, into dweight
  // [B,H,N]; those of the map's parameters are added to `parameters`.
  void backward(const Saved& saved, const HeadTensor& y, const HeadTensor& dy, const Heads& grads,
                const Tensor& dweight, const std::vector<Tensor>& parameters) const {
    const Tensor ddenominator(saved.denominator.shape(), sums_);
    for (const Tile& tile : plan_.tiles()) {
      sweep_queries(tile, saved, y, dy, ddenominator, grads.q, parameters);
      sweep_keys(tile, saved, dy, ddenominator, grads, dweight, parameters);
    }
  }

 private:
  // The rows of q or k in a segment, and their features unless the kernels compute those.
  struct SideRows {
    bool present = false;
    Tensor x;
    Features features;
  };

  bool in_kernel() const { return plan_.feature != KernelFeature::given; }
  const Kernels<T>& table() const { return kernels<T>(context().device); }

  SideRows make(const HeadTensor& all, Side side, const Tile& segment) const {
    if (in_kernel()) return {true, {}, {}};
    const Tensor x = side == Side::key ? plan_.template gather_keys<T>(all, segment)
                                       : plan_.template gather<T>(all, segment);
    return {true, x, map_.forward(x, side, plan_.head_range(segment))};
  }

  HeadRows<const T> feature_rows(const SideRows& side, const HeadTensor& all,
                                 const Tile& segment) const {
    if (!side.present) return {};
    if (in_kernel()) return plan_.template rows<const T>(all, segment);
    return head_rows<const T>(side.features.rows.template data<T>(), segment.length,
                              plan_.features);
  }

  ChunkInput<T> input(const SideRows& q, const SideRows& k, const Tile& segment) const {
    ChunkInput<T> in;
    in.q = feature_rows(q, in_.q, segment);
    in.k = feature_rows(k, in_.k, segment);
    if (!k.present) return in;
    in.v = plan_.template rows<const T>(in_.v, segment);
    if (k.features.weight.defined())
      in.weight = {k.features.weight.template data<T>(), segment.length};
    if (gates_.weight.defined()) {
      in.weight = plan_.template strided<const T>(gates_.weight, 1, segment);
      in.decay = plan_.template strided<const T>(gates_.decay, 1, segment);
    }
    return in;
  }

  ChunkRows<A> saved_rows(const Saved& saved, const Tile& segment) const {
    ChunkRows<A> rows{plan_.template strided<A>(saved.denominator, 1, segment), {}};
    if (scaled_) rows.scale = plan_.template strided<A>(saved.scale, 1, segment);
    return rows;
  }

  // Where the kernel writes the gradient of a segment: into dq or dk, or into that of the features.
  HeadRows<T> gradient_rows(const SideRows& side, const HeadTensor& grad, const Tile& segment,
                            Features& gradient) const {
    if (!side.present) return {};
    if (in_kernel()) return plan_.template rows<T>(grad, segment);
    gradient.rows = Tensor(side.features.rows.shape(), dtype_);
    return head_rows(gradient.rows.template data<T>(), segment.length, plan_.features);
  }

  // visit(segment, shape, with_q, with_k) over the segments, in reverse for a sweep backward. Not
  // causal: all segments update the state first (keys forward, queries backward), then all read it.
  template <typename Visit>
  void sweep(const Tile& tile, bool reverse, const Visit& visit) const {
    std::vector<Tile> segments = plan_.segments(tile);
    if (reverse) std::reverse(segments.begin(), segments.end());
    if (!options_.causal)
      for (const Tile& segment : segments)
        visit(segment, plan_.chunk_shape(segment), reverse, !reverse);
    for (const Tile& segment : segments) {
      ChunkShape shape = plan_.chunk_shape(segment);
      if (options_.causal) {
        shape.starts = segment.first == segments.front().first;
        shape.ends = segment.first == segments.back().first;
      }
      visit(segment, shape, options_.causal || !reverse, options_.causal || reverse);
    }
  }

  // dq, and the gradient of the denominators, along the states of the forward pass.
  void sweep_queries(const Tile& tile, const Saved& saved, const HeadTensor& y,
                     const HeadTensor& dy, const Tensor& ddenominator, const HeadTensor& grad,
                     const std::vector<Tensor>& parameters) const {
    const TileState running(plan_, tile, plan_.values, sums_, scaled_);
    sweep(tile, false, [&](const Tile& segment, const ChunkShape& shape, bool with_q, bool with_k) {
      SideRows q, k;
      Features gradient;
      if (with_q) q = make(in_.q, Side::query, segment);
      if (with_k) k = make(in_.k, Side::key, segment);
      table().chunk_backward_query(
          context(), shape, input(q, k, segment), plan_.template rows<const T>(y, segment),
          plan_.template rows<const T>(dy, segment), saved_rows(saved, segment), running.view<A>(),
          gradient_rows(q, grad, segment, gradient),
          plan_.template strided<A>(ddenominator, 1, segment));
      if (with_q && !in_kernel())
        plan_.template scatter<T>(map_.backward(q.x, q.features, gradient, Side::query,
                                                plan_.head_range(segment), parameters),
                                  segment, grad);
    });
  }

  // dk, dv and the gradients of the weights, along the gradients of the states.
  void sweep_keys(const Tile& tile, const Saved& saved, const HeadTensor& dy,
                  const Tensor& ddenominator, const Heads& grads, const Tensor& gate_gradients,
                  const std::vector<Tensor>& parameters) const {
    const TileState running(plan_, tile, plan_.values, sums_, scaled_);
    const bool codes = map_.straight_through();
    const TileState coded(plan_, codes ? tile : Tile{}, plan_.key_size * (plan_.values + 1), sums_,
                          codes);
    sweep(tile, true, [&](const Tile& segment, const ChunkShape& shape, bool with_q, bool with_k) {
      const HeadRows<const T> grad_y = plan_.template rows<const T>(dy, segment);
      const Strided<const A> grad_d = plan_.template strided<const A>(ddenominator, 1, segment);
      SideRows q, k;
      Features gradient;
      Strided<T> dweight{};
      if (with_q) q = make(in_.q, Side::query, segment);
      if (with_k) {
        k = make(in_.k, Side::key, segment);
        if (k.features.weight.defined()) {
          gradient.weight = Tensor(k.features.weight.shape(), dtype_);
          dweight = {gradient.weight.data<T>(), segment.length};
        }
        if (gates_.weight.defined())
          dweight = plan_.template strided<T>(gate_gradients, 1, segment);
      }
      const ChunkInput<T> in = input(q, k, segment);
      table().chunk_backward_key(context(), shape, in, grad_y, saved_rows(saved, segment), grad_d,
                                 running.view<A>(), gradient_rows(k, grads.k, segment, gradient),
                                 dweight, plan_.template rows<T>(grads.v, segment));
      if (in_kernel()) return;
      Tensor dk;
      if (codes) {
        if (with_k) dk = Tensor(k.x.shape(), dtype_);
        table().straight_through(context(), shape, in, pointer<const T>(q.x),
                                 pointer<const int32_t>(k.features.codes), plan_.key_size, grad_y,
                                 saved_rows(saved, segment), grad_d, coded.view<A>(),
                                 pointer<T>(dk));
      } else if (with_k) {
        dk = map_.backward(k.x, k.features, gradient, Side::key, plan_.head_range(segment),
                           parameters);
      }
      if (with_k) plan_.template scatter<T>(dk, segment, grads.k);
    });
  }

  const FeatureMap& map_;
  Plan plan_;
  Heads in_;
  DType dtype_, sums_;
  Gates gates_;
  LinearAttentionOptions options_;
  bool scaled_;
};

// log(1 - g), the weight of a key, and log g, the decay of the state.
Gates log_gates(const Tensor& gate) {
  return {ops::pointwise(Pointwise::log_one_minus_gate, gate),
          ops::pointwise(Pointwise::log_gate, gate)};
}

// d log g_t = -sum_{j >= t} dweight_j: the decay at t divides the weight of every key from t on.
// The gradient of padding is 0.
template <typename T>
Tensor gate_gradient(const Tensor& gate, const Tensor& dweight, const Tensor& valid) {
  const int64_t H = gate.size(1), N = gate.size(2), pairs = gate.size(0) * H;
  const Tensor sums(gate.shape(), gate.dtype());
  const Kernels<T>& table = kernels<T>(context().device);
  table.reverse_cumsum(context(), dweight.data<T>(), sums.data<T>(), pairs, N);
  const Tensor dgate =
      ops::add(ops::pointwise_backward(Pointwise::log_one_minus_gate, gate, dweight),
               ops::scale(ops::pointwise_backward(Pointwise::log_gate, gate, sums), -1.0));
  if (valid.defined())
    table.clear_padding(context(), {valid.data<int32_t>(), H, 0}, dgate.data<T>(), pairs, N, 1, 0);
  return dgate;
}

}  // namespace

Var linear_attention(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const LinearAttentionOptions& options) {
  check_heads("linear_attention", in, options.valid);
  require(options.causal || !in.gate.defined(),
          "linear_attention: a gate has an order of time: it is causal only");
  std::vector<Var> inputs = input_vars(in);
  if (in.gate.defined()) inputs.push_back(in.gate);
  const std::vector<Var> parameters = map->parameters();
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return with_stored(inputs[0].dtype(), "linear_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor gate = in.gate.defined() ? in.gate.value() : Tensor();
    const Gates gates = gate.defined() ? log_gates(gate) : Gates{};
    const Heads given = Heads::of(in);
    const Tensor y = given.new_output();
    typename LinearPass<T>::Saved saved;
    LinearPass<T>(*map, given, gates, options).forward(given.output_heads(y), saved);
    return Var::from_op("linear_attention", y, inputs,
                        [map, given, gate, gates, saved, y, options, parameters](const Tensor& dy) {
                          const Heads grads = given.new_gradients();
                          const Tensor dweight =
                              gate.defined() ? Tensor(gate.shape(), gate.dtype()) : Tensor();
                          const std::vector<Tensor> dparameters = zero_gradients(parameters);
                          LinearPass<T>(*map, given, gates, options)
                              .backward(saved, given.output_heads(y), given.output_heads(dy), grads,
                                        dweight, dparameters);
                          std::vector<Gradient> result = input_gradients(grads);
                          if (gate.defined())
                            result.emplace_back(gate_gradient<T>(gate, dweight, options.valid));
                          for (const Tensor& grad : dparameters) result.emplace_back(grad);
                          return result;
                        });
  });
}

std::unique_ptr<LinearState> start_linear(const FeatureMap& map, int64_t batch, int64_t heads,
                                          int64_t key_size, int64_t value_size, DType dtype,
                                          bool gated) {
  const Shape sums{batch, heads, map.features(key_size)};
  const bool scaled = gated || map.kind() == FeatureKind::logs || map.weighs_keys();
  return std::make_unique<LinearState>(RecurrentState(sums, value_size, dtype, scaled));
}

// One position is a sequence of length 1.
Tensor linear_step(const FeatureMap& map, LinearState& state, const AttentionStep& in) {
  const RecurrentState& recurrent = state.recurrent;
  const int64_t B = recurrent.shape()[0], H = recurrent.shape()[1], F = recurrent.shape()[2];
  const int64_t M = recurrent.values();
  const Heads given = Heads::of(in, B, H);
  const DType dtype = given.v.data.dtype();
  const Tensor y({B, H, M}, dtype);
  with_stored(dtype, "linear_step", [&](auto zero) {
    using T = decltype(zero);
    const Plan plan(map, given.q, given.v, {}, map.in_kernel());
    const Tile segment{0, B * H, 0, 1};
    ChunkShape shape = plan.chunk_shape(segment);
    ChunkInput<T> input;
    Features q, k;
    if (shape.feature != KernelFeature::given) {
      input.q = plan.rows<const T>(given.q, segment);
      input.k = plan.rows<const T>(given.k, segment);
    } else {
      q = map.forward(plan.gather<T>(given.q, segment), Side::query, {0, H});
      k = map.forward(plan.gather<T>(given.k, segment), Side::key, {0, H});
      input.q = head_rows<const T>(q.rows.data<T>(), 1, F);
      input.k = head_rows<const T>(k.rows.data<T>(), 1, F);
    }
    input.v = plan.rows<const T>(given.v, segment);
    Gates gates{k.weight, {}};
    if (in.gate.defined()) gates = log_gates(in.gate);
    input.weight = {pointer<const T>(gates.weight), 1};
    input.decay = {pointer<const T>(gates.decay), 1};
    kernels<T>(context().device)
        .recurrent_step(context(), shape, input, recurrent.view<T>(), y.data<T>());
  });
  return y;
}

Tensor linear_step_from(const FeatureMap& map, LinearState& state, const AttentionSource& in) {
  const RecurrentState& recurrent = state.recurrent;
  const int64_t B = recurrent.shape()[0], H = recurrent.shape()[1], F = recurrent.shape()[2],
                M = recurrent.values();
  const Tensor y({B, H, M}, in.x.dtype());
  with_stored(in.x.dtype(), "linear_step_from", [&](auto zero) {
    using T = decltype(zero);
    ChunkShape shape{B * H, 1, F, M, 1};
    shape.feature = map.in_kernel();
    kernels<T>(context().device)
        .norm_qkv_step(context(), {B, in.weight.size(0), in.x.size(1)}, in.x.data<T>(),
                       {pointer<const T>(in.norm.weight), pointer<const T>(in.norm.bias)},
                       in.weight.data<T>(), pointer<const T>(in.bias), shape, recurrent.view<T>(),
                       y.data<T>());
  });
  return y;
}

}  // namespace linea
