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
// padding t counts the valid positions. State: sum a_j k_j^T [D,m] and sum a_j v_j^T [m,M]. p starts as
// N(0, 1); each layer has its own.
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
#include "nn/attention/slots.h"
#include "nn/feature_map.h"

namespace linea {
namespace {

constexpr double kLog2 = 0.6931471805599453;

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
      : Attention({.denominators = false, .step_capturable = false}),  // the host counts positions
        options_(options),
        count_(options.settings.integer("slots")),
        slots_(normal_parameter(options, {options.heads, count_, options.key_size}, 1)),
        map_(make_feature_map("identity", 1)) {
    // Weights of keys and of queries, and a gradient of either and of k, until it is added to another.
    traits_.saved_scalars += static_cast<double>(3 * count_ + options.key_size);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    if (!mask.causal) {
      const Var slots = repeat(slots_, in.q.size(0)),
                keys = softmax_attention({slots, in.k, in.k, Var()}, mask),
                values = softmax_attention({slots, in.k, in.v, Var()}, mask);
      return softmax_attention({in.q, keys, values, Var()}, {false, {}});
    }
    const LinearAttentionOptions options{true, mask.valid, options_.segment, options_.chunk};
    const Var a = slot_weights(clear_padding(in.k, mask.valid), slots_),
              sums = delta_attention(map_, kSums, {in.q, in.k, a, Var()}, {}, options),
              weights = softmax(divide_by_count(sums, 1 / kLog2, mask.valid)),
              y = delta_attention(map_, kSums, {weights, a, in.v, Var()}, {}, options);
    return divide_by_count(y, values_factor(), mask.valid);
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
    const std::vector<double> seen = naive::log_mask({B, H, N, N}, DType::f64, mask).to_doubles();
    std::vector<double> means;
    for (size_t row = 0; row < seen.size(); row += static_cast<size_t>(N)) {
      const auto first = seen.begin() + static_cast<std::ptrdiff_t>(row);
      const auto count = static_cast<double>(std::count(first, first + N, 0.0));
      std::transform(first, first + N, std::back_inserter(means),
                     [count](double log) { return log == 0 ? 1 / count : 0; });
    }
    const Var mean(Tensor::from(means, {B, H, N, N}, in.q.dtype()));
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
    const Var a = slot_weights(in.k, slots_);
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
  // The rule multiplies queries, here weights, by 1 / sqrt(m); slot_weights gives a ln 2.
  double values_factor() const { return std::sqrt(static_cast<double>(count_)) / kLog2; }

  static constexpr DeltaKind kSums{.norm = KeyNorm::none, .corrects = false};
  AttentionOptions options_;
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
          .settings = {labeled(InLabel::always,
                               defining(".slots", of_model(integer("slots", 64, {1, 65536},
                                                                   "trained queries of a head"))))},
          .make = construct<LunaAttention>,
          .variants = {{{"slots", int64_t{8}}}},
          .cpu_only = true,
          .tensors = {{"slots", "HCD", "slots", false, "; default: sampled with --seed"}}};
}

}  // namespace linea
