// What the definitions of the update rules are written with.
#pragma once

#include <functional>

#include "autograd/attention_inputs.h"
#include "autograd/feature_map.h"
#include "autograd/ops.h"

namespace linea::naive {

inline size_t size_of(const Tensor& x, int axis) { return static_cast<size_t>(x.size(axis)); }

// Features q = phi(q) and k = phi(k) [B,H,N,F], or their logs; v [B,H,N,M]; the gates, to whose
// log_weight that of a map that weighs its keys is added. Padded keys, values and gates are 0.
struct Inputs {
  Var q, k, v;
  RuleGates gates{};
  bool logs = false;
};
// Errors: shapes that do not go together.
Inputs make_inputs(const FeatureMapPtr& map, const AttentionInputs& in, const RuleGates& gates,
                   const Tensor& valid);

// Whether query i of a batch head may see key j, of those that the mask lets it see; empty: any.
using Allowed = std::function<bool(int64_t bh, int64_t i, int64_t j)>;
// 0 where query i sees key j, else -infinity: of scores [B,H,queries,keys].
Tensor log_mask(const Shape& scores, DType dtype, const AttentionMask& mask,
                const Allowed& allowed = {});
// y_i = sum_j softmax_j(scores_ij) v_j over the keys j that i sees.
Var softmax_attention(const Var& scores, const Var& v, const AttentionMask& mask,
                      const Allowed& allowed = {});
// Logs q, k [B,H,N,F] -> the logs of their scores, y_ij = log sum_f exp(q_if + k_jf), without
// underflow.
Var log_scores(const Var& q, const Var& k);
// exp(x_ij - max_j x_ij): the factor of a row cancels in y.
Var exp_rows(const Var& x);
Var as_rows(const Var& x, int64_t columns);  // x [B,H,N] -> x_i in all of row i
Var as_columns(const Var& x, int64_t rows);  // x [B,H,N] -> x_j in all of column j
// The log of what the state of j has decayed by at i, the sum of log_decay [B,H,N] from j + 1 to i:
// [B,H,N,N], 0 where j >= i.
Var decays_between(const Var& log_decay);
// Products of rows q, k [B,H,N,F] with a log decay of each feature, l [B,H,N,F]: y_ij = sum_f q_if k_jf
// exp(the sum of l_tf from j + 1 to i), 0 where j > i.
Var channel_products(const Var& q, const Var& k, const Var& log_decay);

// The gradient of g of the gated rule, or of a of the gated delta rule, [B,H,N], given that of y:
// one position after the other in long double, without the sums that cancel in the fast forms. It
// is right at gates near 0, and at 0 and 1 themselves.
Tensor decay_gradient(const Inputs& in, const Tensor& dy);

}  // namespace linea::naive
