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

// beta and log a [B,H,N], or their gradients; log_decay is undefined where the state does not
// decay. `given`: the gates as they were given, or all gradients, [B,H,N] or [2,B,H,N].
struct Gates {
  Tensor beta, log_decay{}, given{};
  GateForm form = GateForm::value;

  bool decays() const { return log_decay.defined(); }
  Tensor given_beta() const { return decays() ? given.select(0) : given; }
  // Gradients that are to be written.
  Gates like() const {
    const Tensor grads(given.shape(), given.dtype());
    if (!decays()) return {grads, {}, grads};
    return {grads.select(0), grads.select(1), grads};
  }
};

// The axis of beta and a first, and last again: [B,H,N,2] <-> [2,B,H,N].
Tensor apart(const Tensor& gate) {
  const int64_t count = gate.numel() / 2;
  return ops::permute(gate, {{1, 1, count, 2}, {0, 1, 3, 2}, 1},
                      {2, gate.size(0), gate.size(1), gate.size(2)});
}
Tensor together(const Tensor& gates) {
  const int64_t count = gates.numel() / 2;
  return ops::permute(gates, {{1, 1, 2, count}, {0, 1, 3, 2}, 1},
                      {gates.size(1), gates.size(2), gates.size(3), 2});
}

// beta, and log a, 0 in the padding.
Gates gates_of(const Tensor& gate, GateForm form, const Tensor& valid) {
  const auto strength = [form](const Tensor& x) {
    return form == GateForm::logit ? ops::pointwise(Pointwise::sigmoid, x) : x;
  };
  if (gate.shape().rank() == 3) return {strength(gate), {}, gate, form};
  const Tensor both = apart(gate);
  const Tensor log_decay = ops::pointwise(log_of(form), both.select(1));
  ops::clear_padding(log_decay, valid);
  return {strength(both.select(0)), log_decay, both, form};
}

// The gradient of the gates, given that of beta and of the sums L_i of log a up to a position:
// d log a_t = sum_{i >= t} dL_i. That of the padding is 0.
Tensor gate_gradient(const Gates& gates, const Gates& grads, const Tensor& valid) {
  if (gates.form == GateForm::logit) {
    ops::copy_into(ops::pointwise_backward(Pointwise::sigmoid, gates.given_beta(), grads.beta),
                   grads.beta);
    ops::clear_padding(grads.beta, valid);
  }
  if (!gates.decays()) return grads.beta;
  const Tensor a = gates.given.select(1), dL = grads.log_decay;  // which becomes da
  ops::copy_into(ops::pointwise_backward(log_of(gates.form), a, ops::reverse_cumsum(dL)), dL);
  ops::clear_padding(dL, valid);
  return together(grads.given);
}

// The forward and the backward pass of one call.
template <typename T>
class DeltaPass {
 public:
  DeltaPass(const FeatureMap& map, const Heads& in, const Gates& gates,
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

  // Writes the gradients of q, k, v, beta and, in the place of log a, its sums; those of the map's
  // parameters are added to `parameters`.
  void backward(const Tensor& dy, const Heads& grads, const Gates& dgates,
                const std::vector<Tensor>& parameters) const {
    plan_.each_tile([&](const Tile& tile) {
      const std::vector<Tile> segments = plan_.segments(tile);
      size_t stride =
          1;  // segments between saved states: the square root of their number, or above
      while (stride * stride < segments.size()) ++stride;
      const Tensor dstate = zero_state(tile);
      std::vector<Tensor> saved = {zero_state(tile)};  // before segments 0, stride, 2 stride, ...
      for (size_t first = 0; first + stride < segments.size(); first += stride) {
        const Tensor state = saved.back().clone();
        for (size_t s = first; s < first + stride; ++s) pass(segments[s], state, Tensor());
        saved.push_back(state);
      }
      for (; !saved.empty(); saved.pop_back()) {
        const size_t first = (saved.size() - 1) * stride,
                     end = std::min(first + stride, segments.size());
        std::vector<Tensor> states = {saved.back()};  // before segments first .. end - 1
        for (size_t s = first; s + 1 < end; ++s) {
          states.push_back(states.back().clone());
          pass(segments[s], states.back(), Tensor());
        }
        for (size_t s = end; s > first; --s, states.pop_back())
          pass_back(segments[s - 1], states.back(), dstate, dy, grads, dgates, parameters);
      }
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
  DeltaGates<E> of_segment(const Gates& gates, const Tile& segment) const {
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
                 const Heads& grads, const Gates& dgates,
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
  Gates gates_;
  Plan<T> plan_;
  const Kernels<T>& table_ = kernels<T>(context().device);
};

}  // namespace

Var delta_attention(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                    const LinearAttentionOptions& options) {
  check_heads("delta_attention", in, options.valid, in.gate.shape().rank() == 3 ? 1 : 2);
  require(options.causal, "delta_attention: the delta rule is causal only");
  const Gates gates = gates_of(in.gate.value(), in.gate_form, options.valid);
  // Both passes compute from the saved inputs. The gradients of decays are sums that cancel
  // (linear_attention.cpp).
  const Heads kept = gates.decays() ? Heads::of(in) : Heads::saved(in);
  return with_real(in.v.dtype(), "delta_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor y = DeltaPass<T>(*map, kept.as(in.v.dtype()), gates, options).forward();
    return from_feature_op(
        "delta_attention", y, {in.q, in.k, in.v, in.gate}, *map,
        [=](const Tensor& dy, const std::vector<Tensor>& dparameters) -> Gradients {
          const Heads given = kept.as(dy.dtype()), grads = given.new_gradients(dy.dtype());
          const Gates dgates = gates.like();
          DeltaPass<T>(*map, given, gates, options).backward(dy, grads, dgates, dparameters);
          return {grads.q.data, grads.k.data, grads.v.data,
                  gate_gradient(gates, dgates, options.valid)};
        });
  });
}

Tensor delta_step(const FeatureMap& map, DeltaState& state, const AttentionInputs& in) {
  const int64_t H = state.state.size(1), F = state.state.size(2), M = in.v.size(-1),
                P = state.state.size(0) * H;
  const Gates gates = gates_of(in.gate.value(), in.gate_form, Tensor());
  const auto features = [&](const Var& x, Side side) {
    return unit_features(map, x.value().reshape({P, 1, x.size(-1)}), side, {0, H}).rows;
  };
  const Tensor v = in.v.value(), y(v.shape(), v.dtype()), q = features(in.q, Side::query),
               k = features(in.k, Side::key);
  with_real(y.dtype(), "delta_step", [&](auto zero) {
    using T = decltype(zero);
    kernels<T>(context().device)
        .delta_step(context(), q.data<T>(), k.data<T>(), v.data<T>(), gates.beta.data<T>(),
                    pointer<T>(gates.log_decay), state.state.data<Accumulator<T>>(), y.data<T>(), P,
                    F, M);
  });
  return y;
}

}  // namespace linea
