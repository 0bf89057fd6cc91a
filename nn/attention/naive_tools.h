// What the definitions of nn/attention/naive.h are written with.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autograd/attention_inputs.h"
#include "autograd/feature_map.h"
#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea::naive {

enum class Rule { sum, gated, delta };

// Features as values, q = phi(q) and k = phi(k) [B,H,N,F]; of the delta rule divided by their sums.
// v [B,H,N,M]; gate, g or beta [B,H,N], of the gated and the delta rule; log_weight, log w [B,H,N],
// of a map that weighs its keys. Padded keys, values and gates are 0.
struct Inputs {
  Var q, k, v, gate, log_weight{};
};
// Logs of features and weights are scaled by constants that cancel in y. Errors: shapes that do not
// go together, a mask that is not causal with a gate.
Inputs make_inputs(Rule rule, const std::shared_ptr<const FeatureMap>& map,
                   const AttentionInputs& in, const AttentionMask& mask);

// 0 where query i sees key j, else -infinity: [B,H,N,N].
Tensor log_mask(const Shape& scores, DType dtype, const AttentionMask& mask);
// y_i = sum_j softmax_j(scores_ij) v_j over the keys j that i sees.
Var softmax_attention(const Var& scores, const Var& v, const AttentionMask& mask);
Var as_rows(const Var& x, int64_t columns);  // x [B,H,N] -> x_i in all of row i
Var as_columns(const Var& x, int64_t rows);  // x [B,H,N] -> x_j in all of column j
Var cumulative_sum(const Var& x);            // [B,H,N], along N

// One head in f64: q, k [N,F], v [N,M]; weight w_t, 1 - g_t or beta_t, decay g_t or 1.
struct Head {
  Tensor q, k, v;
  std::vector<double> weight, decay;
};
// form(head, y [N,M]) of all heads -> y [B,H,N,M] in f64.
Tensor each_head(Rule rule, const Inputs& in,
                 const std::function<void(const Head&, const Tensor&)>& form);

Tensor full(int64_t rows, int64_t columns, double value);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor scale_rows(const Tensor& x, const double* factors);
Tensor divide(const Tensor& x, const Tensor& d);  // rows of x [N,M] by d [N,1]; by 0 gives 0

}  // namespace linea::naive
