#include "autograd/delta_attention.h"

#include <cmath>
#include <tuple>

#include "autograd/ops.h"
#include "autograd/rotary.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// The features of one side of a segment as the rule reads them, with what their backward needs:
// divided by their sums (those of logs: a softmax) or Euclidean lengths, times `length`, then
// turned.
struct NormedFeatures {
  Tensor x;  // [BH,S,D]
  Side side;
  HeadRange heads;
  double length;
  Tensor angles;  // [S,F]; undefined: not turned
  Features features;
  Tensor normed{}, saved{};  // [BH,S,F]; sums, or scales
  Tensor rows{};             // [BH,S,F]
};

NormedFeatures normed_features(const FeatureMap& map, KeyNorm norm, const Tensor& x, Side side,
                               const HeadRange& heads, const Tensor& angles) {
  const double length = side == Side::query ? query_scale(norm, x.size(-1)) : 1;
  NormedFeatures result{x, side, heads, length, angles, map.forward(x, side, heads)};
  const Tensor& given = result.features.rows;
  if (norm == KeyNorm::none)
    result.normed = length == 1 ? given : ops::scale(given, length);
  else if (norm == KeyNorm::unit)
    std::tie(result.normed, result.saved) = ops::unit_rows(given, length);
  else if (map.kind() == FeatureKind::logs)
    result.normed = ops::softmax(given);
  else
    std::tie(result.normed, result.saved) = ops::normalize(given);
  result.rows = angles.defined() ? rotated(angles, result.normed) : result.normed;
  return result;
}

Tensor normed_features_backward(const FeatureMap& map, KeyNorm norm, const NormedFeatures& of,
                                const Tensor& drows, const std::vector<Tensor>& gradients) {
  const Tensor dnormed = of.angles.defined() ? rotated(of.angles, drows, true) : drows;
  Features gradient;
  if (norm == KeyNorm::none)
    gradient.rows = of.length == 1 ? dnormed : ops::scale(dnormed, of.length);
  else if (norm == KeyNorm::unit)
    gradient.rows = ops::unit_rows_backward(of.normed, of.saved, dnormed, of.length);
  else if (map.kind() == FeatureKind::logs)
    gradient.rows = ops::softmax_backward(of.normed, dnormed);
  else
    gradient.rows = ops::normalize_backward(of.normed, of.saved, dnormed);
  return map.backward(of.x, of.features, gradient, of.side, of.heads, gradients);
}

// beta and log a [B,H,N], or their gradients: in the place of that of log a, the gradient of its
// sums L_i up to a position, except with DeltaKind::sums_by_segment. beta is undefined where it is 1, log_decay where the state does not decay.
struct GateTensors {
  static GateTensors of(const RuleGates& gates) {
    return {gates.beta.value_or_none(), gates.log_decay.value_or_none()};
  }
  GateTensors like() const {  // to be written
    const auto new_tensor = [](const Tensor& x) {
      return x.defined() ? Tensor(x.shape(), x.dtype()) : Tensor();
    };
    return {new_tensor(beta), new_tensor(log_decay)};
  }
  bool channels() const { return log_decay.defined() && log_decay.shape().rank() == 4; }
  Tensor beta, log_decay;
};

// The forward and the backward pass of one call, from position `first` on, and the step of one position.
template <typename T>
class DeltaPass {
  using A = Accumulator<T>;

 public:
  DeltaPass(const FeatureMap& map, const DeltaKind& kind, const Heads& in, const GateTensors& gates,
            const LinearAttentionOptions& options, SequencePart* part, int64_t first)
      : map_(map),
        kind_(kind),
        in_(in),
        gates_(gates),
        part_(part),
        plan_(map, in.q, in.v, options) {
    if (kind.rotary) angles_ = rotary_table(first, plan_.length, plan_.features, in.q.data.dtype());
  }

  // taken: what the backward pass needs of a part of sequences.
  Tensor forward(TakenStates& taken) const {
    const Tensor y = in_.new_output();
    plan_.each_tile([&](const Tile& tile) {
      const Tensor state = zero_state(tile);
      take_over(part_, PartPass::forward, {state}, &taken, tile.first_bh);
      for (const Tile& segment : plan_.segments(tile)) pass(segment, state, y);
      hand_on(part_, PartPass::forward, {state});
    });
    return y;
  }

  // Writes the gradients of q, k, v and of the gates; those of the map's parameters are added to
  // `parameters`.
  void backward(const TakenStates& taken, const Tensor& dy, const Heads& grads,
                const GateTensors& dgates, const std::vector<Tensor>& parameters) const {
    plan_.each_tile([&](const Tile& tile) {
      const Tensor start = zero_state(tile), dstate = zero_state(tile);
      const Tensor end = Tensor::zeros({tile.batch_heads, decays()}, dstate.dtype());
      restore(taken, {start}, tile.first_bh);
      take_over(part_, PartPass::back, {dstate, end});
      each_segment_back(
          plan_.segments(tile), start,
          [&](const Tile& segment, const Tensor& state) { pass(segment, state, Tensor()); },
          [&](const Tile& segment, const Tensor& state) {
            pass_back(segment, state, dstate, dy, grads, dgates, parameters);
            // From the gradients of the sums L_i to those of log a_t, sum_{i >= t} dL_i. The sum over
            // all positions from a segment on is that of S o dS before it: they share a factor exp(L)
            // with S alone.
            if (kind_.sums_by_segment && dgates.log_decay.defined())
              table_.sum_back(context(), shape(segment), state.data<A>(), dstate.data<A>(),
                              end.data<A>(), gate(dgates.log_decay, decays(), segment));
          });
      hand_on(part_, PartPass::back, {dstate, end});
    });
  }

  // One position of all sequences: updates the state and reads it.
  void step(const Tensor& state, const Tensor& y) const {
    const Tile all{0, plan_.batch_heads, 0, 1};
    const Tensor q = features(in_.q, Side::query, all).rows,
                 k = features(in_.k, Side::key, all).rows;
    table_.delta_step(context(), shape(all), input(q, k, all), state.data<Accumulator<T>>(),
                      y.data<T>());
  }

 private:
  Tensor zero_state(const Tile& tile) const {
    return Tensor::zeros({tile.batch_heads, plan_.features, plan_.values}, dtype_of(A{}));
  }

  NormedFeatures features(const HeadTensor& x, Side side, const Tile& segment) const {
    const Tensor angles =
        angles_.defined() ? angles_.rows(segment.first, segment.length) : Tensor();
    return normed_features(map_, kind_.norm, plan_.gather(x, side, segment), side,
                           plan_.head_range(segment), angles);
  }

  ChunkShape shape(const Tile& segment) const {
    ChunkShape result = plan_.chunk_shape(segment);
    result.corrects = kind_.corrects;
    result.channel_decays = gates_.channels();
    return result;
  }
  int64_t decays() const { return gates_.channels() ? plan_.features : 1; }  // of a position

  Strided<T> gate(const Tensor& x, int64_t width, const Tile& segment) const {
    return x.defined() ? plan_.strided(x, width, segment) : Strided<T>{nullptr, 0};
  }

  DeltaInput<T> input(const Tensor& q, const Tensor& k, const Tile& segment) const {
    return {pointer<T>(q), pointer<T>(k), plan_.strided(in_.v.data, plan_.values, segment),
            gate(gates_.beta, 1, segment), gate(gates_.log_decay, decays(), segment)};
  }

  // Takes `state` over the segment; reads it where y is there to be written.
  void pass(const Tile& segment, const Tensor& state, const Tensor& y) const {
    const Tensor k = features(in_.k, Side::key, segment).rows;
    Tensor q;
    Strided<T> out{};
    if (y.defined()) {
      q = features(in_.q, Side::query, segment).rows;
      out = plan_.strided(y, plan_.values, segment);
    }
    table_.delta_forward(context(), shape(segment), input(q, k, segment), state.data<A>(), out);
  }

  void pass_back(const Tile& segment, const Tensor& state, const Tensor& dstate, const Tensor& dy,
                 const Heads& grads, const GateTensors& dgates,
                 const std::vector<Tensor>& parameters) const {
    const NormedFeatures q = features(in_.q, Side::query, segment),
                         k = features(in_.k, Side::key, segment);
    const Tensor &rows_q = q.rows, &rows_k = k.rows, dq(rows_q.shape(), rows_q.dtype()),
                 dk(rows_k.shape(), rows_k.dtype());
    const int64_t M = plan_.values;
    table_.delta_backward(
        context(), shape(segment), input(rows_q, rows_k, segment), plan_.strided(dy, M, segment),
        state.data<A>(), dstate.data<A>(),
        {dq.data<T>(), dk.data<T>(), plan_.strided(grads.v.data, M, segment),
         gate(dgates.beta, 1, segment), gate(dgates.log_decay, decays(), segment)});
    plan_.scatter(normed_features_backward(map_, kind_.norm, q, dq, parameters), segment, grads.q);
    plan_.scatter(normed_features_backward(map_, kind_.norm, k, dk, parameters), segment, grads.k);
  }

  const FeatureMap& map_;
  DeltaKind kind_;
  Tensor angles_;  // of all positions; undefined: not turned
  Heads in_;
  GateTensors gates_;
  SequencePart* part_;  // null: whole sequences
  Plan<T> plan_;
  const Kernels<T>& table_ = kernels<T>(context().device);
};

}  // namespace

double query_scale(KeyNorm norm, int64_t key_size) {
  return norm == KeyNorm::sum ? 1 : 1 / std::sqrt(static_cast<double>(key_size));
}

Var delta_attention(const FeatureMapPtr& map, const DeltaKind& kind, const AttentionInputs& in,
                    const RuleGates& gates, const LinearAttentionOptions& options) {
  check_heads("delta_attention", in, options.valid, gates);
  require(options.causal, "delta_attention: a rule without denominator is causal only");
  require(gates.beta.defined() || !kind.corrects, "the delta rule needs a beta of each position");
  const GateTensors values = GateTensors::of(gates);
  if (values.channels())
    ops::require_shape("delta_attention", "log_decay", values.log_decay,
                       in.q.shape().with(-1, map->features(in.q.size(-1))));
  const bool decays = gates.log_decay.defined();
  // Both passes compute from the saved inputs. The gradients of decays are sums that cancel
  // (linear_attention.cpp).
  const Heads saved = decays ? Heads::of(in) : Heads::saved(in);
  return with_real(in.v.dtype(), "delta_attention", [&](auto zero) {
    using T = decltype(zero);
    SequencePart* const part = sequence_part();
    const int64_t first = part == nullptr ? 0 : part->first();
    const auto taken = std::make_shared<TakenStates>();
    const Tensor y = DeltaPass<T>(*map, kind, saved.as(in.v.dtype()), values, options, part, first)
                         .forward(*taken);
    return from_feature_op(
        "delta_attention", y, {in.q, in.k, in.v, gates.beta, gates.log_decay}, *map,
        [=](const Tensor& dy, const std::vector<Tensor>& dparameters) -> Gradients {
          const UseSequencePart use(part);
          const Heads given = saved.as(dy.dtype()), grads = given.new_gradients(dy.dtype());
          const GateTensors dgates = values.like();
          DeltaPass<T>(*map, kind, given, values, options, part, first)
              .backward(*taken, dy, grads, dgates, dparameters);
          const Tensor dlog_decay = decays && !kind.sums_by_segment
                                        ? sums_from_end(dgates.log_decay, part)
                                        : dgates.log_decay;
          return {grads.q.data, grads.k.data, grads.v.data, dgates.beta, dlog_decay};
        });
  });
}

Tensor delta_step(const FeatureMap& map, const DeltaKind& kind, DeltaState& state,
                  const AttentionInputs& in, const RuleGates& gates) {
  const Heads given = Heads::of(in);
  const Tensor y = given.new_output();
  with_real(y.dtype(), "delta_step", [&](auto zero) {
    DeltaPass<decltype(zero)>(map, kind, given, GateTensors::of(gates), {}, nullptr, state.position)
        .step(state.state, y);
  });
  ++state.position;
  return y;
}

}  // namespace linea
