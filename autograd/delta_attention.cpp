#include "autograd/delta_attention.h"

#include <utility>

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// The features of one side of a tile divided by their sums, and what their backward needs.
struct UnitFeatures {
  Tensor x;  // [P,S,D]
  Side side;
  PairRange pairs;
  Features made;
  Tensor rows, sums;  // [P,S,F]; sums of values only
};

UnitFeatures unit_features(const FeatureMap& map, const Tensor& x, Side side,
                           const PairRange& pairs) {
  UnitFeatures result{x, side, pairs, map.forward(x, side, pairs), {}, {}};
  if (map.kind() == FeatureKind::logs)
    result.rows = ops::softmax(result.made.rows);
  else
    std::tie(result.rows, result.sums) = ops::normalize(result.made.rows);
  return result;
}

Tensor unit_features_backward(const FeatureMap& map, const UnitFeatures& kept, const Tensor& drows,
                              const std::vector<Tensor>& gradients) {
  Features gradient;
  gradient.rows = map.kind() == FeatureKind::logs
                      ? ops::softmax_backward(kept.rows, drows)
                      : ops::normalize_backward(kept.rows, kept.sums, drows);
  if (kept.made.weight.defined())  // it cancels in the division
    gradient.weight = Tensor::zeros(kept.made.weight.shape(), kept.made.weight.dtype());
  return map.backward(kept.x, kept.made, gradient, kept.side, kept.pairs, gradients);
}

struct Inputs {
  Tensor q, k, v, beta;
};

// The work on one tile and segment, for the forward pass and the backward pass alike.
template <typename T>
class DeltaPass {
 public:
  DeltaPass(const FeatureMap& map, const Inputs& in, const LinearAttentionOptions& options)
      : map_(map), in_(in), plan_(map, in.q, in.v, options), table_(kernels<T>(context().device)) {}

  Tensor forward() const {
    const Tensor y(in_.v.shape(), in_.v.dtype());
    for (const Tile& tile : plan_.tiles()) {
      const Tensor state = zero_state(tile);
      for (const Segment& part : plan_.segments()) pass(tile, part, state, y);
    }
    return y;
  }

  // Gradients of q, k, v, beta; those of the map's parameters are added to `parameters`.
  Inputs backward(const Tensor& dy, const std::vector<Tensor>& parameters) const {
    const Inputs gradients{
        Tensor(in_.q.shape(), in_.q.dtype()), Tensor(in_.k.shape(), in_.k.dtype()),
        Tensor(in_.v.shape(), in_.v.dtype()), Tensor(in_.beta.shape(), in_.beta.dtype())};
    const std::vector<Segment> parts = plan_.segments();
    size_t stride =
        1;  // segments from one kept state to the next: the square root of their number, or above
    while (stride * stride < parts.size()) ++stride;
    for (const Tile& tile : plan_.tiles()) {
      const Tensor dstate = zero_state(tile);
      std::vector<Tensor> kept = {zero_state(tile)};  // before segments 0, stride, 2 stride, ...
      for (size_t first = 0; first + stride < parts.size(); first += stride) {
        const Tensor state = kept.back().clone();
        for (size_t s = first; s < first + stride; ++s) pass(tile, parts[s], state, Tensor());
        kept.push_back(state);
      }
      for (; !kept.empty(); kept.pop_back()) {
        const size_t first = (kept.size() - 1) * stride,
                     end = std::min(first + stride, parts.size());
        std::vector<Tensor> states = {kept.back()};  // before segments first .. end - 1
        for (size_t s = first; s + 1 < end; ++s) {
          states.push_back(states.back().clone());
          pass(tile, parts[s], states.back(), Tensor());
        }
        for (size_t s = end; s > first; --s, states.pop_back())
          pass_back(tile, parts[s - 1], states.back(), dstate, dy, gradients, parameters);
      }
    }
    return gradients;
  }

 private:
  Tensor zero_state(const Tile& tile) const {
    return Tensor::zeros({tile.batch_heads, plan_.features, plan_.values},
                         DTypeOf<Accumulator<T>>::value);
  }

  UnitFeatures queries(const Tile& tile, const Segment& part) const {
    return unit_features(map_, plan_.template gather<T>(in_.q, tile, part), Side::query,
                         plan_.pairs_of(tile));
  }

  UnitFeatures keys(const Tile& tile, const Segment& part) const {
    return unit_features(map_, plan_.template gather_keys<T>(in_.k, tile, part), Side::key,
                         plan_.pairs_of(tile));
  }

  // Takes `state` over the segment; reads it where y is there to be written.
  void pass(const Tile& tile, const Segment& part, const Tensor& state, const Tensor& y) const {
    const UnitFeatures k = keys(tile, part);
    Tensor q;
    Strided<T> out{};
    if (y.defined()) {
      q = queries(tile, part).rows;
      out = plan_.template strided<T>(y, plan_.values, tile, part);
    }
    table_.delta_forward(context(), plan_.chunk_shape(tile, part), pointer<T>(q),
                         pointer<T>(k.rows),
                         plan_.template strided<const T>(in_.v, plan_.values, tile, part),
                         plan_.template strided<const T>(in_.beta, 1, tile, part),
                         state.data<Accumulator<T>>(), out);
  }

  void pass_back(const Tile& tile, const Segment& part, const Tensor& state, const Tensor& dstate,
                 const Tensor& dy, const Inputs& gradients,
                 const std::vector<Tensor>& parameters) const {
    const UnitFeatures q = queries(tile, part), k = keys(tile, part);
    const Tensor dq(q.rows.shape(), q.rows.dtype()), dk(k.rows.shape(), k.rows.dtype());
    const int64_t M = plan_.values;
    table_.delta_backward(context(), plan_.chunk_shape(tile, part), pointer<T>(q.rows),
                          pointer<T>(k.rows), plan_.template strided<const T>(in_.v, M, tile, part),
                          plan_.template strided<const T>(in_.beta, 1, tile, part),
                          plan_.template strided<const T>(dy, M, tile, part),
                          state.data<Accumulator<T>>(), dstate.data<Accumulator<T>>(), dq.data<T>(),
                          dk.data<T>(), plan_.template strided<T>(gradients.v, M, tile, part),
                          plan_.template strided<T>(gradients.beta, 1, tile, part));
    plan_.template scatter<T>(unit_features_backward(map_, q, dq, parameters), tile, part,
                              gradients.q);
    plan_.template scatter<T>(unit_features_backward(map_, k, dk, parameters), tile, part,
                              gradients.k);
  }

  const FeatureMap& map_;
  const Inputs& in_;
  Plan plan_;
  const Kernels<T>& table_;
};

}  // namespace

Var delta_attention(const std::shared_ptr<const FeatureMap>& map, const AttentionInputs& in,
                    const LinearAttentionOptions& options) {
  check_heads("delta_attention", in, options.valid);
  require(options.causal, "delta_attention: the delta rule is causal only");
  const Inputs tensors{in.q.value(), in.k.value(), in.v.value(), in.gate.value()};
  const std::vector<Var> parameters = map->parameters();
  std::vector<Var> inputs = {in.q, in.k, in.v, in.gate};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return with_real(in.v.dtype(), "delta_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor y = DeltaPass<T>(*map, tensors, options).forward();
    return Var::from_op("delta_attention", y, inputs, [=](const Tensor& dy) {
      const std::vector<Tensor> dparameters = zero_gradients(parameters);
      const Inputs d = DeltaPass<T>(*map, tensors, options).backward(dy, dparameters);
      std::vector<Gradient> gradients = {d.q, d.k, d.v, d.beta};
      gradients.insert(gradients.end(), dparameters.begin(), dparameters.end());
      return gradients;
    });
  });
}

Tensor delta_step(const FeatureMap& map, DeltaState& state, const AttentionStep& in) {
  const int64_t P = in.gate.numel(), H = in.gate.size(1), F = state.state.size(-2),
                M = in.v.size(-1);
  const auto features = [&](const Tensor& x, Side side) {
    return unit_features(map, x.reshape({P, 1, x.size(-1)}), side, {0, H}).rows;
  };
  const Tensor y(in.v.shape(), in.v.dtype()), q = features(in.q, Side::query),
                                              k = features(in.k, Side::key);
  with_real(y.dtype(), "delta_step", [&](auto zero) {
    using T = decltype(zero);
    kernels<T>(context().device)
        .delta_step(context(), q.data<T>(), k.data<T>(), in.v.data<T>(), in.gate.data<T>(),
                    state.state.data<Accumulator<T>>(), y.data<T>(), P, F, M);
  });
  return y;
}

}  // namespace linea
