#include "autograd/linear_attention.h"

#include <limits>

#include "autograd/ops.h"

namespace linea {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// S, z and their scales of one tile; or their gradients.
struct TileState {
  // `dtype`: that of sums
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

// What a call has beside q, k and v: log weights and log decays [B,H,N] of a gate.
struct Gates {
  Tensor weight, decay;
};

// One call's inputs and the loop's view of them.
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

  struct Kept {
    Tensor denominator, scale;  // [BH,N]
  };

  void forward(const HeadTensor& y, Kept& kept) const {
    kept.denominator = Tensor({plan_.batch_heads, plan_.length}, sums_);
    if (scaled_) kept.scale = Tensor({plan_.batch_heads, plan_.length}, sums_);
    for (const Tile& tile : plan_.tiles()) {
      const TileState running(plan_, tile, plan_.values, sums_, scaled_);
      sweep(tile, false,
            [&](const Segment& part, const ChunkShape& shape, bool with_q, bool with_k) {
              Made q, k;
              if (with_q) q = make(in_.q, Side::query, tile, part);
              if (with_k) k = make(in_.k, Side::key, tile, part);
              table().chunk_forward(context(), shape, input(q, k, tile, part), running.view<A>(),
                                    plan_.template rows<T>(y, tile, part),
                                    rows_kept(kept, tile, part));
            });
    }
  }

  // dq, dk, dv into `gradients`; the gradient of the weights where there are gates, into dweight
  // [B,H,N]; those of the map's parameters are added to `parameters`.
  void backward(const Kept& kept, const HeadTensor& y, const HeadTensor& dy, const Heads& grads,
                const Tensor& dweight, const std::vector<Tensor>& parameters) const {
    const Tensor ddenominator(kept.denominator.shape(), sums_);
    for (const Tile& tile : plan_.tiles()) {
      sweep_queries(tile, kept, y, dy, ddenominator, grads.q, parameters);
      sweep_keys(tile, kept, dy, ddenominator, grads, dweight, parameters);
    }
  }

 private:
  // A segment's rows, and their features where these are not made by the kernels.
  struct Made {
    bool there = false;
    Tensor x;
    Features features;
  };

  bool in_kernel() const { return plan_.feature != KernelFeature::given; }
  const Kernels<T>& table() const { return kernels<T>(context().device); }

  Made make(const HeadTensor& all, Side side, const Tile& tile, const Segment& part) const {
    if (in_kernel()) return {true, {}, {}};
    const Tensor x = side == Side::key ? plan_.template gather_keys<T>(all, tile, part)
                                       : plan_.template gather<T>(all, tile, part);
    return {true, x, map_.forward(x, side, plan_.pairs_of(tile))};
  }

  HeadRows<const T> features_of(const Made& made, const HeadTensor& all, const Tile& tile,
                                const Segment& part) const {
    if (!made.there) return {};
    if (in_kernel()) return plan_.template rows<const T>(all, tile, part);
    return head_rows<const T>(made.features.rows.template data<T>(), part.length, plan_.features);
  }

  ChunkInput<T> input(const Made& q, const Made& k, const Tile& tile, const Segment& part) const {
    ChunkInput<T> in;
    in.q = features_of(q, in_.q, tile, part);
    in.k = features_of(k, in_.k, tile, part);
    if (!k.there) return in;
    in.v = plan_.template rows<const T>(in_.v, tile, part);
    if (k.features.weight.defined())
      in.weight = {k.features.weight.template data<T>(), part.length};
    if (gates_.weight.defined()) {
      in.weight = plan_.template strided<const T>(gates_.weight, 1, tile, part);
      in.decay = plan_.template strided<const T>(gates_.decay, 1, tile, part);
    }
    return in;
  }

  ChunkRows<A> rows_kept(const Kept& kept, const Tile& tile, const Segment& part) const {
    ChunkRows<A> rows{plan_.template strided<A>(kept.denominator, 1, tile, part), {}};
    if (scaled_) rows.scale = plan_.template strided<A>(kept.scale, 1, tile, part);
    return rows;
  }

  // Where the kernel writes the gradient of a segment's rows: into place, or into one of the
  // features.
  HeadRows<T> gradient_of(const Made& made, const HeadTensor& grad, const Tile& tile,
                          const Segment& part, Features& gradient) const {
    if (!made.there) return {};
    if (in_kernel()) return plan_.template rows<T>(grad, tile, part);
    gradient.rows = Tensor(made.features.rows.shape(), dtype_);
    return head_rows(gradient.rows.template data<T>(), part.length, plan_.features);
  }

  // visit(segment, with_q, with_k) over the segments, in reverse for a sweep backward. Not causal:
  // first all that is absorbed (keys forward, queries backward), then all that is read.
  template <typename Visit>
  void sweep(const Tile& tile, bool reverse, const Visit& visit) const {
    std::vector<Segment> parts = plan_.segments();
    if (reverse) std::reverse(parts.begin(), parts.end());
    const auto shape_of = [&](const Segment& part) { return plan_.chunk_shape(tile, part); };
    if (!options_.causal)
      for (const Segment& part : parts) visit(part, shape_of(part), reverse, !reverse);
    for (const Segment& part : parts) {
      ChunkShape shape = shape_of(part);
      if (options_.causal) {
        shape.starts = part.first == parts.front().first;
        shape.ends = part.first == parts.back().first;
      }
      visit(part, shape, options_.causal || !reverse, options_.causal || reverse);
    }
  }

  // dq, and the gradient of the denominators, along the states of the forward pass.
  void sweep_queries(const Tile& tile, const Kept& kept, const HeadTensor& y, const HeadTensor& dy,
                     const Tensor& ddenominator, const HeadTensor& grad,
                     const std::vector<Tensor>& parameters) const {
    const TileState running(plan_, tile, plan_.values, sums_, scaled_);
    sweep(tile, false, [&](const Segment& part, const ChunkShape& shape, bool with_q, bool with_k) {
      Made q, k;
      Features gradient;
      if (with_q) q = make(in_.q, Side::query, tile, part);
      if (with_k) k = make(in_.k, Side::key, tile, part);
      table().chunk_backward_query(
          context(), shape, input(q, k, tile, part), plan_.template rows<const T>(y, tile, part),
          plan_.template rows<const T>(dy, tile, part), rows_kept(kept, tile, part),
          running.view<A>(), gradient_of(q, grad, tile, part, gradient),
          plan_.template strided<A>(ddenominator, 1, tile, part));
      if (with_q && !in_kernel())
        plan_.template scatter<T>(
            map_.backward(q.x, q.features, gradient, Side::query, plan_.pairs_of(tile), parameters),
            tile, part, grad);
    });
  }

  // dk, dv and what the weights get, along the gradients of the states.
  void sweep_keys(const Tile& tile, const Kept& kept, const HeadTensor& dy,
                  const Tensor& ddenominator, const Heads& grads, const Tensor& gate_gradients,
                  const std::vector<Tensor>& parameters) const {
    const TileState running(plan_, tile, plan_.values, sums_, scaled_);
    const bool codes = map_.straight_through();
    const TileState coded(plan_, codes ? tile : Tile{0, 0}, plan_.key_size * (plan_.values + 1),
                          sums_, codes);
    sweep(tile, true, [&](const Segment& part, const ChunkShape& shape, bool with_q, bool with_k) {
      const HeadRows<const T> grad_y = plan_.template rows<const T>(dy, tile, part);
      const Strided<const A> grad_d = plan_.template strided<const A>(ddenominator, 1, tile, part);
      Made q, k;
      Features gradient;
      Strided<T> dweight{};
      if (with_q) q = make(in_.q, Side::query, tile, part);
      if (with_k) {
        k = make(in_.k, Side::key, tile, part);
        if (k.features.weight.defined()) {
          gradient.weight = Tensor(k.features.weight.shape(), dtype_);
          dweight = {gradient.weight.data<T>(), part.length};
        }
        if (gates_.weight.defined())
          dweight = plan_.template strided<T>(gate_gradients, 1, tile, part);
      }
      const ChunkInput<T> in = input(q, k, tile, part);
      table().chunk_backward_key(context(), shape, in, grad_y, rows_kept(kept, tile, part), grad_d,
                                 running.view<A>(), gradient_of(k, grads.k, tile, part, gradient),
                                 dweight, plan_.template rows<T>(grads.v, tile, part));
      if (in_kernel()) return;
      Tensor dk;
      if (codes) {
        if (with_k) dk = Tensor(k.x.shape(), dtype_);
        table().straight_through(context(), shape, in, pointer<const T>(q.x),
                                 pointer<const int32_t>(k.features.codes), plan_.key_size, grad_y,
                                 rows_kept(kept, tile, part), grad_d, coded.view<A>(),
                                 pointer<T>(dk));
      } else if (with_k) {
        dk = map_.backward(k.x, k.features, gradient, Side::key, plan_.pairs_of(tile), parameters);
      }
      if (with_k) plan_.template scatter<T>(dk, tile, part, grads.k);
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

// log(1 - g) and log g: how much a key weighs, and how the state decays.
Gates logs_of(const Tensor& gate) {
  return {ops::pointwise(Pointwise::log_one_minus_gate, gate),
          ops::pointwise(Pointwise::log_gate, gate)};
}

// d log g_t = -sum_{j >= t} dweight_j, for a decay at t divides the weight of every key from t on.
// What stands in padding may be anything: its gradient is 0.
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
  std::vector<Var> inputs = inputs_of(in);
  if (in.gate.defined()) inputs.push_back(in.gate);
  const std::vector<Var> parameters = map->parameters();
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return with_stored(inputs[0].dtype(), "linear_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor gate = in.gate.defined() ? in.gate.value() : Tensor();
    const Gates gates = gate.defined() ? logs_of(gate) : Gates{};
    const Heads given = Heads::of(in);
    const Tensor y = given.new_output();
    typename LinearPass<T>::Kept kept;
    LinearPass<T>(*map, given, gates, options).forward(given.output_heads(y), kept);
    return Var::from_op("linear_attention", y, inputs,
                        [map, given, gate, gates, kept, y, options, parameters](const Tensor& dy) {
                          const Heads grads = given.new_gradients();
                          const Tensor dweight =
                              gate.defined() ? Tensor(gate.shape(), gate.dtype()) : Tensor();
                          const std::vector<Tensor> dparameters = zero_gradients(parameters);
                          LinearPass<T>(*map, given, gates, options)
                              .backward(kept, given.output_heads(y), given.output_heads(dy), grads,
                                        dweight, dparameters);
                          std::vector<Gradient> result = gradients_of(grads);
                          if (gate.defined())
                            result.emplace_back(gate_gradient<T>(gate, dweight, options.valid));
                          for (const Tensor& grad : dparameters) result.emplace_back(grad);
                          return result;
                        });
  });
}

LinearState::LinearState(const Shape& sums, int64_t values, DType dtype, bool scaled)
    : key_sum(Tensor::zeros(sums, sum_dtype(dtype))) {
  const Shape all{sums[0], sums[1], sums[2], values};
  const bool waits = !scaled && context().sizes.pending > 0;
  if (waits && dtype == DType::bf16 && values % kWideRows == 0) {
    high_ = Tensor::zeros(all, DType::bf16);
    low_ = Tensor::zeros(all, DType::bf16);
  } else {
    state = Tensor::zeros(all, sum_dtype(dtype));
  }
  if (scaled) scale = Tensor::full(sums, sum_dtype(dtype), kNothing);
  if (!waits) return;
  const int64_t capacity = context().sizes.pending;
  pending_keys_ = Tensor::zeros({sums[0], sums[1], capacity, sums[2]}, dtype);
  pending_values_ = Tensor::zeros({sums[0], sums[1], capacity, values}, dtype);
  count_ = Tensor::zeros({sums[0], sums[1]}, DType::i32);
}

size_t LinearState::bytes() const {
  size_t total = 0;
  for (const Tensor* part :
       {&state, &key_sum, &scale, &pending_keys_, &pending_values_, &count_, &high_, &low_})
    total += part->defined() ? part->bytes() : 0;
  return total;
}

std::unique_ptr<LinearState> start_linear(const FeatureMap& map, int64_t batch, int64_t heads,
                                          int64_t key_size, int64_t value_size, DType dtype,
                                          bool gated) {
  const Shape sums{batch, heads, map.features(key_size)};
  const bool scaled = gated || map.kind() == FeatureKind::logs || map.weighs_keys();
  return std::make_unique<LinearState>(sums, value_size, dtype, scaled);
}

// One position is a sequence of length 1.
Tensor linear_step(const FeatureMap& map, LinearState& state, const AttentionStep& in) {
  const int64_t B = state.key_sum.size(0), H = state.key_sum.size(1), F = state.key_sum.size(2),
                P = B * H;
  const int64_t M = state.values();
  const Heads given = Heads::of(in, B, H);
  const DType dtype = given.v.data.dtype();
  const Tensor y({B, H, M}, dtype);
  with_stored(dtype, "linear_step", [&](auto zero) {
    using T = decltype(zero);
    const Plan plan(map, given.q, given.v, {}, map.in_kernel());
    const Tile tile{0, P};
    const Segment part{0, 1};
    ChunkShape shape = plan.chunk_shape(tile, part);
    ChunkInput<T> input;
    Features q, k;
    if (shape.feature != KernelFeature::given) {
      input.q = plan.rows<const T>(given.q, tile, part);
      input.k = plan.rows<const T>(given.k, tile, part);
    } else {
      q = map.forward(plan.gather<T>(given.q, tile, part), Side::query, {0, H});
      k = map.forward(plan.gather<T>(given.k, tile, part), Side::key, {0, H});
      input.q = head_rows<const T>(q.rows.data<T>(), 1, F);
      input.k = head_rows<const T>(k.rows.data<T>(), 1, F);
    }
    input.v = plan.rows<const T>(given.v, tile, part);
    Gates gates{k.weight, {}};
    if (in.gate.defined()) gates = logs_of(in.gate);
    input.weight = {pointer<const T>(gates.weight), 1};
    input.decay = {pointer<const T>(gates.decay), 1};
    kernels<T>(context().device)
        .recurrent_step(context(), shape, input, state.sums<T>(), state.pending<T>(), y.data<T>());
  });
  return y;
}

Tensor linear_step_from(const FeatureMap& map, LinearState& state, const AttentionSource& in) {
  if (map.in_kernel() == KernelFeature::given) return {};
  const int64_t B = state.key_sum.size(0), H = state.key_sum.size(1), F = state.key_sum.size(2),
                M = state.values();
  const Tensor y({B, H, M}, in.x.dtype());
  bool done = false;
  with_stored(in.x.dtype(), "linear_step_from", [&](auto zero) {
    using T = decltype(zero);
    const auto step = kernels<T>(context().device).fused_norm_step;
    ChunkShape shape{B * H, 1, F, M, 1};
    shape.feature = map.in_kernel();
    done =
        step != nullptr && step(context(), {B, in.weight.size(0), in.x.size(1)}, in.x.data<T>(),
                                {pointer<const T>(in.norm.weight), pointer<const T>(in.norm.bias)},
                                in.weight.data<T>(), pointer<const T>(in.bias), shape,
                                state.sums<T>(), state.pending<T>(), y.data<T>());
  });
  return done ? y : Tensor();
}

}  // namespace linea
