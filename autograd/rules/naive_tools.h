// What the definitions of the update rules are written with.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autograd/attention_inputs.h"
#include "autograd/feature_map.h"
#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea::naive {

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
// 0 where query i sees key j, else -infinity: [B,H,N,keys].
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

// One head in f64: q, k [N,F], v [N,M]; beta, and exp of the log weights, of each position, and exp
// of the log decays of each feature, [N,F].
struct Head {
  Tensor q, k, v;
  std::vector<double> beta, weight;
  Tensor decay;
  // S [F,...] at position t as it has decayed.
  Tensor decayed(const Tensor& S, int64_t t) const;
};
// form(head, y [N,M]) of all heads -> y [B,H,N,M] in f64.
Tensor each_head(const Inputs& in, const std::function<void(const Head&, const Tensor&)>& form);

// Positions [first, first + C) of a head, C `chunk` or what is left. With l_i the sums of log decays
// from the start of the chunk to i, Q is exp(l_i) q_i, K is exp(-l_j) w_j k_j and A is Q K^T where
// j <= i: decays and weights are gone. The decays of a chunk must multiply to more than 1e-300.
struct Chunk {
  Chunk(const Head& head, int64_t first, int64_t chunk);
  Tensor read(const Tensor& S, const Tensor& X) const;    // Q S + A X
  Tensor update(const Tensor& S, const Tensor& X) const;  // S at the end, of X written by K
  int64_t rows;
  Tensor decay;  // exp(l_i) [C,F]
  Tensor Q, K, V, A;
};

Tensor full(int64_t rows, int64_t columns, double value);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor scale_rows(const Tensor& x, const double* factors);
Tensor divide(const Tensor& x, const Tensor& d);  // rows of x [N,M] by d [N,1]; by 0 gives 0

}  // namespace linea::naive
