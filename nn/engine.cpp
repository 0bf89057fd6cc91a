#include "nn/engine.h"

#include <limits>

#include "autograd/ops.h"

namespace linea {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// S, z and their scales of one tile; or their slopes.
struct TileState {
  TileState(const Plan& plan, const Tile& tile, int64_t values, DType dtype, bool scaled)
      : state(Tensor::zeros({tile.pairs, plan.features, values}, dtype)),
        key_sum(Tensor::zeros({tile.pairs, plan.features}, dtype)) {
    if (scaled) scale = Tensor::full({tile.pairs, plan.features}, dtype, kNothing);
  }
  template <typename T>
  ChunkState<T> view() const {
    return {state.data<T>(), key_sum.data<T>(), pointer<T>(scale)};
  }
  Tensor state, key_sum, scale;
};

// What a call has beside q, k and v: log weights and log decays [B,H,N] of a gate.
struct Gates {
  Tensor weight, decay;
};

// One call's inputs and the loop's view of them.
template <typename T>
class Engine {
 public:
  Engine(const FeatureMap& map, const Tensor& q, const Tensor& k, const Tensor& v, const Gates& gates,
         const EngineOptions& options)
      : map_(map),
        plan_(map, q, v, options),
        q_(q),
        k_(k),
        v_(v),
        gates_(gates),
        options_(options),
        scaled_(map.kind() == FeatureKind::logs || map.weighs_keys() || gates.weight.defined()) {}

  struct Kept {
    Tensor denominator, scale;  // [pairs,N]
  };

  Tensor forward(Kept& kept) const {
    const Tensor y(v_.shape(), v_.dtype());
    kept.denominator = Tensor({plan_.pairs, plan_.length}, v_.dtype());
    if (scaled_) kept.scale = Tensor({plan_.pairs, plan_.length}, v_.dtype());
    for (const Tile& tile : plan_.tiles()) {
      const TileState carried(plan_, tile, plan_.values, v_.dtype(), scaled_);
      sweep(tile, false, [&](const Segment& part, const ChunkShape& shape, bool with_q, bool with_k) {
        Made q, k;
        if (with_q) q = make(q_, Side::query, tile, part);
        if (with_k) k = make(k_, Side::key, tile, part);
        table().chunk_forward(context(), shape, input(q, k, tile, part),
                              carried.view<T>(), plan_.template strided<T>(y, plan_.values, tile, part),
                              rows_kept(kept, tile, part));
      });
    }
    return y;
  }

  struct Slopes {
    Tensor dq, dk, dv, dweight;  // dweight [B,H,N] where there are gates
    std::vector<Tensor> parameters;
  };

  Slopes backward(const Kept& kept, const Tensor& dy, const std::vector<Tensor>& parameters) const {
    Slopes slopes{Tensor(q_.shape(), q_.dtype()), Tensor(k_.shape(), k_.dtype()), Tensor(v_.shape(), v_.dtype()),
                  {}, parameters};
    if (gates_.weight.defined()) slopes.dweight = Tensor(gates_.weight.shape(), v_.dtype());
    const Tensor ddenominator(kept.denominator.shape(), v_.dtype());
    for (const Tile& tile : plan_.tiles()) {
      sweep_queries(tile, kept, dy, ddenominator, slopes);
      sweep_keys(tile, kept, dy, ddenominator, slopes);
    }
    return slopes;
  }

 private:
  // A segment's rows and their features.
  struct Made {
    Tensor x;
    Features features;
  };

  const Kernels<T>& table() const { return kernels<T>(context().device); }

  // Padding may hold anything: keys that do not exist become 0 before features are made of them.
  Made make(const Tensor& all, Side side, const Tile& tile, const Segment& part) const {
    Tensor x = plan_.template gather<T>(all, plan_.key_size, tile, part);
    if (side == Side::key && options_.valid.defined()) {
      x = x.clone();
      table().clear_padding(context(), plan_.chunk_shape(tile, part).valid, x.template data<T>(), tile.pairs,
                            part.length, plan_.key_size, part.first);
    }
    return {x, map_.forward(x, side, plan_.pairs_of(tile))};
  }

  ChunkInput<T> input(const Made& q, const Made& k, const Tile& tile, const Segment& part) const {
    ChunkInput<T> in;
    in.q = pointer<const T>(q.features.rows);
    in.k = pointer<const T>(k.features.rows);
    if (in.k == nullptr) return in;
    in.v = plan_.template strided<const T>(v_, plan_.values, tile, part);
    if (k.features.weight.defined()) in.weight = {k.features.weight.template data<T>(), part.length};
    if (gates_.weight.defined()) {
      in.weight = plan_.template strided<const T>(gates_.weight, 1, tile, part);
      in.decay = plan_.template strided<const T>(gates_.decay, 1, tile, part);
    }
    return in;
  }

  ChunkRows<T> rows_kept(const Kept& kept, const Tile& tile, const Segment& part) const {
    ChunkRows<T> rows{plan_.template strided<T>(kept.denominator, 1, tile, part), {}};
    if (scaled_) rows.scale = plan_.template strided<T>(kept.scale, 1, tile, part);
    return rows;
  }

  // visit(segment, with_q, with_k) over the segments, in reverse for a sweep backward. Not causal: first all
  // that is absorbed (keys forward, queries backward), then all that is read.
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
  void sweep_queries(const Tile& tile, const Kept& kept, const Tensor& dy, const Tensor& ddenominator,
                     const Slopes& slopes) const {
    const TileState carried(plan_, tile, plan_.values, v_.dtype(), scaled_);
    sweep(tile, false, [&](const Segment& part, const ChunkShape& shape, bool with_q, bool with_k) {
      Made q, k;
      Features gradient;
      if (with_q) {
        q = make(q_, Side::query, tile, part);
        gradient.rows = Tensor(q.features.rows.shape(), q_.dtype());
      }
      if (with_k) k = make(k_, Side::key, tile, part);
      table().chunk_backward_query(context(), shape, input(q, k, tile, part),
                                   plan_.template strided<const T>(dy, plan_.values, tile, part),
                                   rows_kept(kept, tile, part), carried.view<T>(), pointer<T>(gradient.rows),
                                   plan_.template strided<T>(ddenominator, 1, tile, part));
      if (with_q)
        plan_.template scatter<T>(
            map_.backward(q.x, q.features, gradient, Side::query, plan_.pairs_of(tile), slopes.parameters),
            plan_.key_size, tile, part, slopes.dq);
    });
  }

  // dk, dv and what the weights get, along the slopes of the states.
  void sweep_keys(const Tile& tile, const Kept& kept, const Tensor& dy, const Tensor& ddenominator,
                  const Slopes& slopes) const {
    const TileState carried(plan_, tile, plan_.values, v_.dtype(), scaled_);
    const bool codes = map_.straight_through();
    const TileState coded(plan_, codes ? tile : Tile{0, 0}, plan_.key_size * (plan_.values + 1), v_.dtype(), codes);
    sweep(tile, true, [&](const Segment& part, const ChunkShape& shape, bool with_q, bool with_k) {
      const Strided<const T> slope_y = plan_.template strided<const T>(dy, plan_.values, tile, part);
      const Strided<const T> slope_d = plan_.template strided<const T>(ddenominator, 1, tile, part);
      Made q, k;
      Features gradient;
      Strided<T> dweight{};
      if (with_q) q = make(q_, Side::query, tile, part);
      if (with_k) {
        k = make(k_, Side::key, tile, part);
        gradient.rows = Tensor(k.features.rows.shape(), k_.dtype());
        if (k.features.weight.defined()) {
          gradient.weight = Tensor(k.features.weight.shape(), k_.dtype());
          dweight = {gradient.weight.data<T>(), part.length};
        }
        if (gates_.weight.defined()) dweight = plan_.template strided<T>(slopes.dweight, 1, tile, part);
      }
      const ChunkInput<T> in = input(q, k, tile, part);
      table().chunk_backward_key(context(), shape, in, slope_y, rows_kept(kept, tile, part), slope_d,
                                 carried.view<T>(), pointer<T>(gradient.rows), dweight,
                                 plan_.template strided<T>(slopes.dv, plan_.values, tile, part));
      Tensor dk;
      if (codes) {
        if (with_k) dk = Tensor(k.x.shape(), k_.dtype());
        table().straight_through(context(), shape, in, pointer<const T>(q.x), pointer<const int32_t>(k.features.codes),
                                 plan_.key_size, slope_y, rows_kept(kept, tile, part), slope_d, coded.view<T>(),
                                 pointer<T>(dk));
      } else if (with_k) {
        dk = map_.backward(k.x, k.features, gradient, Side::key, plan_.pairs_of(tile), slopes.parameters);
      }
      if (with_k) plan_.template scatter<T>(dk, plan_.key_size, tile, part, slopes.dk);
    });
  }

  const FeatureMap& map_;
  Plan plan_;
  Tensor q_, k_, v_;
  Gates gates_;
  EngineOptions options_;
  bool scaled_;
};

void check_inputs(const AttentionInputs& in, const Tensor& valid) {
  ops::common_dtype("linear_attention", {&in.q.value(), &in.k.value(), &in.v.value()});
  require(in.q.shape().rank() == 4 && in.v.shape().rank() == 4, "linear_attention: q {} and v {} are not [B,H,N,D]",
          in.q.shape().str(), in.v.shape().str());
  ops::require_shape("linear_attention", "k", in.k.value(), in.q.shape());
  ops::require_shape("linear_attention", "v", in.v.value(), in.q.shape().with(-1, in.v.size(-1)));
  if (valid.defined()) ops::require_shape("linear_attention", "valid", valid, {in.q.size(0)});
  if (in.gate.defined())
    ops::require_shape("linear_attention", "gate", in.gate.value(), {in.q.size(0), in.q.size(1), in.q.size(2)});
}

// log(1 - g) and log g: how much a key weighs, and how the state decays.
Gates logs_of(const Tensor& gate) {
  return {ops::pointwise(Pointwise::log_rest, gate), ops::pointwise(Pointwise::log_gate, gate)};
}

// d log g_t = -sum_{j >= t} dweight_j, for a decay at t divides the weight of every key from t on. What stands
// in padding may be anything: its gradient is 0.
template <typename T>
Tensor gate_slope(const Tensor& gate, const Tensor& dweight, const Tensor& valid) {
  const int64_t H = gate.size(1), N = gate.size(2), pairs = gate.size(0) * H;
  const Tensor sums(gate.shape(), gate.dtype());
  const Kernels<T>& table = kernels<T>(context().device);
  table.sum_from_end(context(), dweight.data<T>(), sums.data<T>(), pairs, N);
  const Tensor dgate = ops::add(ops::pointwise_backward(Pointwise::log_rest, gate, dweight),
                                ops::scale(ops::pointwise_backward(Pointwise::log_gate, gate, sums), -1.0));
  if (valid.defined())
    table.clear_padding(context(), {valid.data<int32_t>(), H, 0}, dgate.data<T>(), pairs, N, 1, 0);
  return dgate;
}

// The slopes of the map's parameters to add to, undefined where none is asked for.
std::vector<Tensor> zero_slopes(const std::vector<Var>& parameters) {
  std::vector<Tensor> result;
  for (const Var& parameter : parameters)
    result.push_back(parameter.requires_grad() ? Tensor::zeros(parameter.shape(), parameter.dtype()) : Tensor());
  return result;
}

}  // namespace

Var linear_attention(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const EngineOptions& options) {
  check_inputs(in, options.valid);
  require(options.causal || !in.gate.defined(), "linear_attention: a gate has an order of time: it is causal only");
  std::vector<Var> inputs = {in.q, in.k, in.v};
  if (in.gate.defined()) inputs.push_back(in.gate);
  const std::vector<Var> parameters = map->parameters();
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return with_real(in.v.dtype(), "linear_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor gate = in.gate.defined() ? in.gate.value() : Tensor();
    const Gates gates = gate.defined() ? logs_of(gate) : Gates{};
    typename Engine<T>::Kept kept;
    const Tensor y = Engine<T>(*map, in.q.value(), in.k.value(), in.v.value(), gates, options).forward(kept);
    return Var::made_by(
        "linear_attention", y, inputs,
        [map, q = in.q.value(), k = in.k.value(), v = in.v.value(), gate, gates, kept, options,
         parameters](const Tensor& dy) {
          auto slopes = Engine<T>(*map, q, k, v, gates, options).backward(kept, dy, zero_slopes(parameters));
          std::vector<Gradient> result = {slopes.dq, slopes.dk, slopes.dv};
          if (gate.defined()) result.emplace_back(gate_slope<T>(gate, slopes.dweight, options.valid));
          for (const Tensor& slope : slopes.parameters) result.emplace_back(slope);
          return result;
        });
  });
}

Var attention_matrix(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const AttentionMask& mask) {
  check_inputs(in, mask.valid);
  const FeatureVars q = apply_features(map, in.q, Side::query), k = apply_features(map, in.k, Side::key);
  const Var weight = in.gate.defined() ? pointwise(Pointwise::log_rest, in.gate) : k.weight;
  const Var log_decay = in.gate.defined() ? pointwise(Pointwise::log_gate, in.gate) : Var();
  std::vector<Var> inputs = {q.rows, k.rows};
  if (weight.defined()) inputs.push_back(weight);
  if (log_decay.defined()) inputs.push_back(log_decay);
  const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), F = q.rows.size(3);
  return with_real(in.q.dtype(), "attention_matrix", [&](auto zero) {
    using T = decltype(zero);
    const auto shape_of = [=, kind = map->kind()](const Tensor& valid) {
      ChunkShape shape{B * H, N, F, 0, N};
      shape.valid = {valid.defined() ? valid.data<int32_t>() : nullptr, H, 0};
      shape.kind = kind;
      return shape;
    };
    const auto input_of = [N](const Tensor& rows_q, const Tensor& rows_k, const Tensor& w, const Tensor& decay) {
      ChunkInput<T> input;
      input.q = rows_q.data<T>();
      input.k = rows_k.data<T>();
      input.weight = {pointer<const T>(w), N};
      input.decay = {pointer<const T>(decay), N};
      return input;
    };
    const auto value_of = [](const Var& x) { return x.defined() ? x.value() : Tensor(); };
    const Tensor rows_q = q.rows.value(), rows_k = k.rows.value(), w = value_of(weight), decay = value_of(log_decay);
    const Tensor matrix({B, H, N, N}, in.q.dtype());
    kernels<T>(context().device)
        .attention_matrix(context(), shape_of(mask.valid), input_of(rows_q, rows_k, w, decay), mask.causal,
                          matrix.data<T>());
    return Var::made_by("attention_matrix", matrix, inputs, [=](const Tensor& dmatrix) {
      const auto like = [](const Tensor& x) { return x.defined() ? Tensor(x.shape(), x.dtype()) : Tensor(); };
      const Tensor dq = like(rows_q), dk = like(rows_k), dw = like(w), ddecay = like(decay);
      kernels<T>(context().device)
          .attention_matrix_backward(context(), shape_of(mask.valid), input_of(rows_q, rows_k, w, decay), mask.causal,
                                     dmatrix.data<T>(), dq.data<T>(), dk.data<T>(), pointer<T>(dw),
                                     pointer<T>(ddecay));
      std::vector<Gradient> result = {dq, dk};
      if (dw.defined()) result.emplace_back(dw);
      if (ddecay.defined()) result.emplace_back(ddecay);
      return result;
    });
  });
}

Var linear_quadratic(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                     const AttentionMask& mask) {
  return matmul(attention_matrix(map, in, mask), in.v);
}

LinearState::LinearState(const Shape& sums, int64_t values, DType dtype, bool scaled)
    : state(Tensor::zeros({sums[0], sums[1], sums[2], values}, dtype)), key_sum(Tensor::zeros(sums, dtype)) {
  if (scaled) scale = Tensor::full(sums, dtype, kNothing);
}

size_t LinearState::bytes() const {
  return state.bytes() + key_sum.bytes() + (scale.defined() ? scale.bytes() : 0);
}

std::unique_ptr<LinearState> start_linear(const FeatureMap& map, const AttentionOptions& options, int64_t batch,
                                          DType dtype, bool gated) {
  const Shape sums{batch, options.heads, map.features(options.key_size)};
  const bool scaled = gated || map.kind() == FeatureKind::logs || map.weighs_keys();
  return std::make_unique<LinearState>(sums, options.value_size, dtype, scaled);
}

Tensor linear_step(const FeatureMap& map, LinearState& state, const AttentionStep& in) {
  const int64_t H = in.q.size(1), P = in.q.size(0) * H, D = in.q.size(2), M = in.v.size(2);
  const Features q = map.forward(in.q.reshape({P, 1, D}), Side::query, {0, H});
  const Features k = map.forward(in.k.reshape({P, 1, D}), Side::key, {0, H});
  Gates gates{k.weight, {}};
  if (in.gate.defined()) gates = logs_of(in.gate);
  Tensor y(in.v.shape(), in.v.dtype());
  with_real(in.v.dtype(), "linear_step", [&](auto zero) {
    using T = decltype(zero);
    ChunkShape shape{P, 1, q.rows.size(2), M, 1};
    shape.kind = map.kind();
    ChunkInput<T> input;
    input.q = q.rows.data<T>();
    input.k = k.rows.data<T>();
    input.v = {in.v.data<T>(), M};
    input.weight = {pointer<const T>(gates.weight), 1};
    input.decay = {pointer<const T>(gates.decay), 1};
    kernels<T>(context().device)
        .recurrent_step(context(), shape, input,
                        {state.state.data<T>(), state.key_sum.data<T>(), pointer<T>(state.scale)}, y.data<T>());
  });
  return y;
}

}  // namespace linea
