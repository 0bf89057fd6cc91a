#include "autograd/delta_attention.h"

#include <tuple>

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// The features of one side of a segment divided by their sums, with what their backward needs.
struct UnitFeatures {
  Tensor x;  // [BH,S,D]
  Side side;
  HeadRange heads;
  Features features;
  Tensor rows, sums;  // [BH,S,F]; sums of values only
};

UnitFeatures unit_features(const FeatureMap& map, const Tensor& x, Side side,
                           const HeadRange& heads) {
  UnitFeatures result{x, side, heads, map.forward(x, side, heads), {}, {}};
  if (map.kind() == FeatureKind::logs)
    result.rows = ops::softmax(result.features.rows);
  else
    std::tie(result.rows, result.sums) = ops::normalize(result.features.rows);
  return result;
}

Tensor unit_features_backward(const FeatureMap& map, const UnitFeatures& saved, const Tensor& drows,
                              const std::vector<Tensor>& gradients) {
  Features gradient;
  gradient.rows = map.kind() == FeatureKind::logs
                      ? ops::softmax_backward(saved.rows, drows)
                      : ops::normalize_backward(saved.rows, saved.sums, drows);
  return map.backward(saved.x, saved.features, gradient, saved.side, saved.heads, gradients);
}

// beta and log a [B,H,N], or their gradients: in the place of that of log a, the gradient of its
// sums L_i up to a position. log_decay is undefined where the state does not decay.
struct GateTensors {
  static GateTensors of(const RuleGates& gates) {
    require(gates.beta.defined(), "the delta rule needs a beta of each position");
    return {gates.beta.value(), gates.log_decay.value_or_none()};
  }
  GateTensors like() const {  // to be written
    const auto new_tensor = [](const Tensor& x) { return Tensor(x.shape(), x.dtype()); };
    return {new_tensor(beta), log_decay.defined() ? new_tensor(log_decay) : Tensor()};
  }
  Tensor beta, log_decay;
};

// The forward and the backward pass of one call.
template <typename T>
class DeltaPass {
 public:
  DeltaPass(const FeatureMap& map, const Heads& in, const GateTensors& gates,
            const LinearAttentionOptions& options)
      : map_(map), in_(in), gates_(gates), plan_(map, in.q, in.v, options) {}

  Tensor forward() const {
    const Tensor y = in_.new_output();
    plan_.each_tile([&](const Tile& tile) {
      const Tensor state = zero_state(tile);
      for (const Tile& segment : plan_.segments(tile)) pass(segment, state, y);
    });
    return y;
  }

  // Writes the gradients of q, k, v and of the gates; those of the map's parameters are added to
  // `parameters`.
  void backward(const Tensor& dy, const Heads& grads, const GateTensors& dgates,
                const std::vector<Tensor>& parameters) const {
    plan_.each_tile([&](const Tile& tile) {
      const Tensor dstate = zero_state(tile);
      each_segment_back(
          plan_.segments(tile), zero_state(tile),
          [&](const Tile& segment, const Tensor& state) { pass(segment, state, Tensor()); },
          [&](const Tile& segment, const Tensor& state) {
            pass_back(segment, state, dstate, dy, grads, dgates, parameters);
          });
    });
  }

 private:
  Tensor zero_state(const Tile& tile) const {
    return Tensor::zeros({tile.batch_heads, plan_.features, plan_.values},
                         dtype_of(Accumulator<T>{}));
  }

  UnitFeatures unit(const HeadTensor& x, Side side, const Tile& segment) const {
    return unit_features(map_, plan_.gather(x, side, segment), side, plan_.head_range(segment));
  }

  template <typename E = const T>
  DeltaGates<E> of_segment(const GateTensors& gates, const Tile& segment) const {
    DeltaGates<E> result{plan_.strided(gates.beta, 1, segment)};
    if (gates.log_decay.defined()) result.log_decay = plan_.strided(gates.log_decay, 1, segment);
    return result;
  }

  // Takes `state` over the segment; reads it where y is there to be written.
  void pass(const Tile& segment, const Tensor& state, const Tensor& y) const {
    const UnitFeatures k = unit(in_.k, Side::key, segment);
    Tensor q;
    Strided<T> out{};
    if (y.defined()) {
      q = unit(in_.q, Side::query, segment).rows;
      out = plan_.strided(y, plan_.values, segment);
    }
    table_.delta_forward(context(), plan_.chunk_shape(segment), pointer<T>(q), pointer<T>(k.rows),
                         plan_.strided(in_.v.data, plan_.values, segment),
                         of_segment(gates_, segment), state.data<Accumulator<T>>(), out);
  }

  void pass_back(const Tile& segment, const Tensor& state, const Tensor& dstate, const Tensor& dy,
                 const Heads& grads, const GateTensors& dgates,
                 const std::vector<Tensor>& parameters) const {
    const UnitFeatures q = unit(in_.q, Side::query, segment), k = unit(in_.k, Side::key, segment);
    const Tensor dq(q.rows.shape(), q.rows.dtype()), dk(k.rows.shape(), k.rows.dtype());
    const int64_t M = plan_.values;
    table_.delta_backward(context(), plan_.chunk_shape(segment), pointer<T>(q.rows),
                          pointer<T>(k.rows), plan_.strided(in_.v.data, M, segment),
                          of_segment(gates_, segment), plan_.strided(dy, M, segment),
                          state.data<Accumulator<T>>(), dstate.data<Accumulator<T>>(), dq.data<T>(),
                          dk.data<T>(), plan_.strided(grads.v.data, M, segment),
                          of_segment<T>(dgates, segment));
    plan_.scatter(unit_features_backward(map_, q, dq, parameters), segment, grads.q);
    plan_.scatter(unit_features_backward(map_, k, dk, parameters), segment, grads.k);
  }

  const FeatureMap& map_;
  Heads in_;
  GateTensors gates_;
  Plan<T> plan_;
  const Kernels<T>& table_ = kernels<T>(context().device);
};

}  // namespace

Var delta_attention(const FeatureMapPtr& map, const AttentionInputs& in, const RuleGates& gates,
                    const LinearAttentionOptions& options) {
  check_heads("delta_attention", in, options.valid, gates);
  require(options.causal, "delta_attention: the delta rule is causal only");
  const GateTensors values = GateTensors::of(gates);
  const bool decays = gates.log_decay.defined();
  // Both passes compute from the saved inputs. The gradients of decays are sums that cancel
  // (linear_attention.cpp).
  const Heads kept = decays ? Heads::of(in) : Heads::saved(in);
  std::vector<Var> inputs = {in.q, in.k, in.v, gates.beta};
  if (decays) inputs.push_back(gates.log_decay);
  return with_real(in.v.dtype(), "delta_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor y = DeltaPass<T>(*map, kept.as(in.v.dtype()), values, options).forward();
    return from_feature_op(
        "delta_attention", y, inputs, *map,
        [=](const Tensor& dy, const std::vector<Tensor>& dparameters) -> Gradients {
          const Heads given = kept.as(dy.dtype()), grads = given.new_gradients(dy.dtype());
          const GateTensors dgates = values.like();
          DeltaPass<T>(*map, given, values, options).backward(dy, grads, dgates, dparameters);
          Gradients all = {grads.q.data, grads.k.data, grads.v.data, dgates.beta};
          if (decays) all.emplace_back(ops::reverse_cumsum(dgates.log_decay));
          return all;
        });
  });
}

Tensor delta_step(const FeatureMap& map, DeltaState& state, const AttentionInputs& in,
                  const RuleGates& gates) {
  const int64_t H = state.state.size(1), F = state.state.size(2), M = in.v.size(-1),
                P = state.state.size(0) * H;
  const GateTensors values = GateTensors::of(gates);
  const auto features = [&](const Var& x, Side side) {
    return unit_features(map, x.value().reshape({P, 1, x.size(-1)}), side, {0, H}).rows;
  };
  const Tensor v = in.v.value(), y(v.shape(), v.dtype()), q = features(in.q, Side::query),
               k = features(in.k, Side::key);
  with_real(y.dtype(), "delta_step", [&](auto zero) {
    using T = decltype(zero);
    kernels<T>(context().device)
        .delta_step(context(), q.data<T>(), k.data<T>(), v.data<T>(), values.beta.data<T>(),
                    pointer<T>(values.log_decay), state.state.data<Accumulator<T>>(), y.data<T>(),
                    P, F, M);
  });
  return y;
}

}  // namespace linea
