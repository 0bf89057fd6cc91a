// Luna: m trained queries p_s read keys and values, and the positions read the results:
//
//   kappa_s = sum_j softmax_j(p_s.k_j / sqrt(D)) k_j,  h_s with v_j in the place of k_j
//   y_i = sum_s softmax_s(q_i.kappa_s / sqrt(D)) h_s
//
// Causal, with weights that need no sum over all keys:
//
//   a_js = log2(1 + 2^(p_s.k_j / sqrt(D)))
//   kappa_ts = (1 / t) sum_{j <= t} a_js k_j,  h_ts = (1 / t) sum_{j <= t} a_js v_j
//   y_t = sum_s softmax_s(q_t.kappa_ts / sqrt(D)) h_ts
//
// These are two passes of the sum without denominator (autograd/delta_attention.h): scores of q_t from keys
// k_j with the values a_j, then y of the weights from keys a_j with the values v_j, each divided by t. With
// padding t counts the valid positions. State: sum a_j k_j^T [D,m] and sum a_j v_j^T [m,M]. Both passes go over
// one segment of positions after the other, and the backward pass computes a and the weights again, so that
// N m numbers never exist. p starts as N(0, 1); each layer has its own.
// Source: Ma et al. 2021, "Luna: linear unified nested attention", eq. 6-8 and 11-12.
#include <algorithm>
#include <cmath>

#include "autograd/delta_attention.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/slots.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"
#include "nn/feature_map.h"
#include "tensor/launch.h"

namespace linea {
namespace {

constexpr double kLog2 = 0.6931471805599453;

// a ln 2 of keys [BH,S,D] and slots [H,m,D]: [BH,S,m].
double score_scale(const Tensor& slots) {
  return kLog2 / std::sqrt(static_cast<double>(slots.size(-1)));
}
Tensor key_weights(const Tensor& k, const Tensor& slots, int64_t first_bh) {
  const Tensor a = ops::head_matmul(k, slots, first_bh, true, score_scale(slots));
  ops::pointwise_into(Pointwise::softplus, a, a);
  return a;
}

// Rows of a segment, [BH,S,D] and [BH,S,m]; a is multiplied by ln 2.
struct SegmentRows {
  Tensor k, a, q{}, weights{};
};

// The causal form, forward and backward.
template <typename T>
class CausalLuna {
 public:
  CausalLuna(const FeatureMap& map, const Heads& in, const Tensor& slots,
             const LinearAttentionOptions& options)
      : in_(in),
        slots_(slots),
        valid_(options.valid),
        m_(slots.size(1)),
        plan_(map, in.q, in.v, options) {}

  Tensor forward() const {
    const Tensor y = in_.new_output();
    plan_.each_tile([&](const Tile& tile) {
      const Tensor state = zero_state(tile);
      for (const Tile& segment : plan_.segments(tile)) {
        const SegmentRows rows = all_rows(segment, state);
        pass_values(segment, rows, rows.weights, state, plan_.strided(y, plan_.values, segment));
      }
    });
    return divided({0, plan_.batch_heads, 0, plan_.length}, y, 1 / kLog2);
  }

  // Gradients of q, k and v; returns that of the slots.
  Tensor backward(const Tensor& dy, const Heads& grads) const {
    const Tensor dslots = Tensor::zeros({plan_.batch_heads, m_, plan_.key_size}, slots_.dtype());
    plan_.each_tile([&](const Tile& tile) {
      const Tensor dstate = zero_state(tile);
      each_segment_back(
          plan_.segments(tile), zero_state(tile),
          [&](const Tile& segment, const Tensor& state) {
            const SegmentRows rows = keys_of(segment);
            pass_keys(segment, rows, state, {});
            pass_values(segment, rows, {}, state, {});
          },
          [&](const Tile& segment, const Tensor& state) {
            segment_back(segment, state, dstate, dy, grads,
                         dslots.rows(segment.first_bh, segment.batch_heads));
          });
    });
    return ops::sum_rows(
        dslots.reshape({plan_.batch_heads / plan_.heads, plan_.heads, m_, plan_.key_size}),
        slots_.shape());
  }

 private:
  // sum a_j k_j^T [BH,D,m], then sum a_j v_j^T [BH,m,M].
  Tensor zero_state(const Tile& tile) const {
    return Tensor::zeros({tile.batch_heads * m_ * (plan_.key_size + plan_.values)}, slots_.dtype());
  }
  T* value_sums(const Tile& tile, const Tensor& state) const {
    return state.data<T>() + tile.batch_heads * m_ * plan_.key_size;
  }

  ChunkShape shape(const Tile& segment, int64_t features, int64_t values) const {
    ChunkShape result = plan_.chunk_shape(segment);
    result.features = features;
    result.values = values;
    result.corrects = false;
    return result;
  }
  ChunkShape key_shape(const Tile& segment) const { return shape(segment, plan_.key_size, m_); }
  ChunkShape value_shape(const Tile& segment) const { return shape(segment, m_, plan_.values); }
  Strided<T> slot_rows(const Tensor& x, const Tile& segment) const {
    return {pointer<T>(x), segment.length * m_};
  }
  DeltaInput<T> key_input(const Tile& segment, const SegmentRows& rows) const {
    return {pointer<T>(rows.q), rows.k.data<T>(), slot_rows(rows.a, segment), {nullptr, 0}};
  }
  DeltaInput<T> value_input(const Tile& segment, const SegmentRows& rows,
                            const Tensor& weights) const {
    return {pointer<T>(weights),
            rows.a.data<T>(),
            plan_.strided(in_.v.data, plan_.values, segment),
            {nullptr, 0}};
  }
  // They take `state` over the segment; sums and y: written where queries, or weights, are there.
  void pass_keys(const Tile& segment, const SegmentRows& rows, const Tensor& state,
                 const Tensor& sums) const {
    table_.delta_forward(context(), key_shape(segment), key_input(segment, rows), state.data<T>(),
                         slot_rows(sums, segment));
  }
  void pass_values(const Tile& segment, const SegmentRows& rows, const Tensor& weights,
                   const Tensor& state, const Strided<T>& y) const {
    table_.delta_forward(context(), value_shape(segment), value_input(segment, rows, weights),
                         value_sums(segment, state), y);
  }

  SegmentRows keys_of(const Tile& segment) const {
    const Tensor k = plan_.gather(in_.k, Side::key, segment);
    return {k, key_weights(k, slots_, segment.first_bh)};
  }
  // Takes the sums of keys over the segment.
  SegmentRows all_rows(const Tile& segment, const Tensor& state) const {
    SegmentRows rows = keys_of(segment);
    rows.q = plan_.gather(in_.q, Side::query, segment);
    const Tensor sums(rows.a.shape(), rows.a.dtype());
    pass_keys(segment, rows, state, sums);
    rows.weights = ops::softmax(divided(segment, sums, scores_factor()));
    return rows;
  }

  void segment_back(const Tile& segment, const Tensor& state, const Tensor& dstate,
                    const Tensor& dy, const Heads& grads, const Tensor& dslots) const {
    const SegmentRows rows = all_rows(segment, state.clone());
    const auto like = [](const Tensor& x) { return Tensor(x.shape(), x.dtype()); };
    const Tensor dweights = like(rows.a), da = like(rows.a), more = like(rows.a), dq = like(rows.q),
                 dk = like(rows.k),
                 dout = divided(segment, plan_.gather(dy, Side::query, segment), 1 / kLog2);
    table_.delta_backward(context(), value_shape(segment), value_input(segment, rows, rows.weights),
                          {dout.data<T>(), segment.length * plan_.values},
                          value_sums(segment, state), value_sums(segment, dstate),
                          {dweights.data<T>(),
                           da.data<T>(),
                           plan_.strided(grads.v.data, plan_.values, segment),
                           {nullptr, 0}});
    const Tensor dsums =
        divided(segment, ops::softmax_backward(rows.weights, dweights), scores_factor());
    table_.delta_backward(context(), key_shape(segment), key_input(segment, rows),
                          slot_rows(dsums, segment), state.data<T>(), dstate.data<T>(),
                          {dq.data<T>(), dk.data<T>(), slot_rows(more, segment), {nullptr, 0}});
    ops::accumulate(more, da);
    // y = log(1 + e^u), u = k p^T ln 2 / sqrt(D):  du = dy (1 - e^-y)
    table_.softplus_backward(context(), rows.a.data<T>(), da.data<T>(), da.data<T>(), da.numel());
    const double scale = score_scale(slots_);
    ops::accumulate(ops::head_matmul(da, slots_, segment.first_bh, false, scale), dk);
    ops::accumulate(ops::matmul(da, rows.k, true, false, scale), dslots);
    plan_.scatter(dq, segment, grads.q);
    plan_.scatter(dk, segment, grads.k);
  }

  // What sums of a ln 2 are multiplied by, apart from 1 / t.
  double scores_factor() const {
    return 1 / (kLog2 * std::sqrt(static_cast<double>(plan_.key_size)));
  }
  // factor x_t / t, t up to the number of valid positions, and that from there on.
  Tensor divided(const Tile& segment, const Tensor& x, double factor) const {
    const Tensor y(x.shape(), x.dtype());
    const SlotShape shape{segment.batch_heads,
                          plan_.heads,
                          segment.length,
                          x.size(-1),
                          0,
                          {valid_.data_or_null<int32_t>(), plan_.heads, segment.first_bh},
                          segment.first};
    table_.divide_by_count(context(), shape, x.data<T>(), factor, y.data<T>());
    return y;
  }

  Heads in_;
  Tensor slots_, valid_;
  int64_t m_;
  Plan<T> plan_;
  const Kernels<T>& table_ = kernels<T>(context().device);
};

struct LunaState final : AttentionState {
  LunaState(const Shape& key_sums, const Shape& value_sums, DType dtype)
      : keys(key_sums, dtype), values(value_sums, dtype) {}
  size_t bytes() const override { return keys.bytes() + values.bytes(); }
  DeltaState keys, values;  // [B,H,D,m], [B,H,m,M]
  int64_t positions = 0;    // so far
};

class LunaAttention final : public Attention {
 public:
  explicit LunaAttention(const AttentionOptions& options)
      : Attention(options, {.denominators = false,
                            .any_order = true,
                            .step_capturable = false}),  // the host counts positions
        count_(options.settings.integer("slots")),
        slots_(normal_parameter(options, {options.heads, count_, options.key_size}, 1)),
        map_(make_feature_map("identity", 1)) {}

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    if (!mask.causal) {
      const Var slots = repeat(slots_, in.q.size(0)),
                keys = softmax_attention({slots, in.k, in.k, Var()}, mask),
                values = softmax_attention({slots, in.k, in.v, Var()}, mask);
      return softmax_attention({in.q, keys, values, Var()}, {false, {}});
    }
    check_heads("luna", in, mask.valid);
    const LinearAttentionOptions options{true, mask.valid, options_.segment, options_.chunk};
    return with_real(in.v.dtype(), "luna", [&](auto zero) {
      using T = decltype(zero);
      const Heads heads = Heads::of(in);
      const Tensor y = CausalLuna<T>(*map_, heads, slots_.value(), options).forward();
      return Var::from_op("luna", y, {in.q, in.k, in.v, slots_},
                          [=, map = map_, slots = slots_.value()](const Tensor& dy) -> Gradients {
                            const ExactProducts exact;
                            const Heads grads = heads.new_gradients(dy.dtype());
                            const Tensor dslots =
                                CausalLuna<T>(*map, heads, slots, options).backward(dy, grads);
                            return {grads.q.data, grads.k.data, grads.v.data, dslots};
                          });
    });
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2);
    const Var slots = repeat(slots_, B), k = clear_padding(in.k, mask.valid),
              v = clear_padding(in.v, mask.valid), scores = scaled_scores(slots, k);
    if (!mask.causal) {
      const Var keys = naive::softmax_attention(scores, k, mask),
                values = naive::softmax_attention(scores, v, mask);
      return naive::softmax_attention(scaled_scores(in.q, keys), values, {false, {}});
    }
    // The weights of the mean over the positions j that t sees, [B,H,N,N].
    const std::vector<int32_t> valid = mask.lengths(B, N);
    const Var mean = constant_matrix(in.q, N, N, [&](int64_t bh, int64_t t, int64_t j) {
      const int64_t count = std::min<int64_t>(t + 1, valid[static_cast<size_t>(bh / H)]);
      return j < count ? 1 / static_cast<double>(count) : 0;
    });
    const Var a =
        scale(pointwise(Pointwise::softplus, scale(scores, kLog2)), 1 / kLog2);  // [B,H,m,N]
    const Var weights = softmax(matmul(multiply(scaled_scores(in.q, k), mean), a, false, true));
    return matmul(multiply(matmul(weights, a), mean), v);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<LunaState>(Shape{batch, options_.heads, options_.key_size, count_},
                                       Shape{batch, options_.heads, count_, options_.value_size},
                                       dtype);
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    const NoGrad no_grad;
    auto& state = dynamic_cast<LunaState&>(any_state);
    const auto t = static_cast<double>(++state.positions);
    const int64_t B = in.k.size(0), H = options_.heads;
    const Var a(key_weights(in.k.value().reshape({B * H, 1, options_.key_size}), slots_.value(), 0)
                    .reshape({B, H, 1, count_}));
    const Tensor scores = delta_step(*map_, kSums, state.keys, {in.q, in.k, a, Var()}, {});
    const Var weights(ops::softmax(ops::scale(scores, 1 / (kLog2 * t))));
    const Tensor y = delta_step(*map_, kSums, state.values, {weights, a, in.v, Var()}, {});
    return ops::scale(y, values_factor() / t);
  }

  // Causal: p.k, and for each of both passes the sums S += k^T v and S^T q, as the sum rule counts them.
  AttentionFlops flops(int64_t) const override {
    const auto D = static_cast<double>(options_.key_size),
               M = static_cast<double>(options_.value_size), m = static_cast<double>(count_);
    return {2 * m * D + 4 * m * (D + M), 6 * m * D + 14 * m * (D + M)};
  }

  Parameters parameters() const override { return {{"slots", slots_}}; }

 private:
  // The rule multiplies queries, here weights, by 1 / sqrt(m); key_weights gives a ln 2.
  double values_factor() const { return std::sqrt(static_cast<double>(count_)) / kLog2; }

  static constexpr DeltaKind kSums{.norm = KeyNorm::none, .corrects = false};
  int64_t count_;
  Var slots_;  // [H,m,D]
  FeatureMapPtr map_;
};

}  // namespace

AttentionEntry luna_entry() {
  using namespace declare;
  return {.name = "luna",
          .summary = "softmax attention to trained queries that read keys and values",
          .source = "Ma 2021",
          .settings = {labeled(
              defining(".slots", integer("slots", 64, {1, 65536}, "trained queries of a head")))},
          .make = construct<LunaAttention>,
          .variants = {{{"slots", int64_t{8}}}},
          .cpu_only = true,
          .tensors = {{"slots", "HCD", "slots", false, "; default: sampled with --seed"}}};
}

}  // namespace linea
