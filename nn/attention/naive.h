// The definitions of linear attention, each update rule in three forms: what the fast forms
// (autograd/linear_attention.h, autograd/delta_attention.h) must equal, and the tests' oracle.
//
//   sum    S_t = S_{t-1} + w_t phi(k_t) v_t^T                            y_t = S_t^T phi(q_t) / d_t
//   gated  S_t = g_t S_{t-1} + (1 - g_t) phi(k_t) v_t^T                  y_t = S_t^T phi(q_t) / d_t
//   delta  S_t = S_{t-1} + phi(k_t) beta_t (v_t - S_{t-1}^T phi(k_t))^T  y_t = S_t^T phi(q_t)
//   gated delta: the same of a_t S_{t-1} in the place of S_{t-1}
//
// d_t is S_t^T phi(q_t) with v = 1.
//
// Sources: Katharopoulos 2020, eq. 16-20; Peng 2021, section 3.4; Schlag 2021, section 4.2; Yang
// 2025, "Gated delta networks"; for the chunked delta rule Yang 2024, "Parallelizing linear
// Transformers with the delta rule".
#pragma once

#include <algorithm>
#include <vector>

#include "nn/attention/naive_tools.h"

namespace linea::naive {

// All weights of a sequence at once, N x N, with gradients:
//
//   y_i = sum_j a_ij v_j / sum_j a_ij,   a_ij = phi(q_i).phi(k_j) w_j   over the keys j that i sees
//
// of the gated rule w_j = (1 - g_j) g_{j+1} ... g_i. What the delta rule writes, X = B (V - the
// strict lower part of (K K^T) X), is a triangular system. Of the gated delta rule K K^T and Q K^T
// are multiplied by the decays a_{j+1} ... a_i.
inline Var quadratic(Rule rule, const Inputs& in, const AttentionMask& mask) {
  const int64_t N = in.q.size(2);
  const Var scores = in.logs ? log_scores(in.q, in.k) : matmul(in.q, in.k, false, true);
  const Var log_visible(
      log_mask(scores.shape(), scores.dtype(), mask));  // 0 where i sees j, else -infinity
  Var log_weight = log_visible;
  if (decays(rule)) log_weight = add(log_weight, decays_between(in.log_decay));
  if (is_delta(rule)) {
    const Var decayed = exp(log_weight), B = as_rows(in.beta, N);
    const Var strengths = multiply(multiply(B, matmul(in.k, in.k, false, true)), decayed);
    const Var x = solve_unit_lower(strengths, multiply(as_rows(in.beta, in.v.size(3)), in.v));
    return matmul(multiply(scores, decayed), x);
  }
  if (in.log_weight.defined()) log_weight = add(log_weight, as_columns(in.log_weight, N));
  const Var weights = in.logs ? softmax(add(scores, log_weight))
                              : normalize(multiply(scores, exp_rows(log_weight)));
  return matmul(weights, in.v);
}

inline Var quadratic(Rule rule, const std::shared_ptr<const FeatureMap>& map,
                     const AttentionInputs& in, const AttentionMask& mask) {
  return quadratic(rule, make_inputs(rule, map, in, mask), mask);
}

// One position after the other, causal: the formulas above. Without gradients -> [B,H,N,M].
inline Tensor recurrent(Rule rule, const Inputs& in) {
  return each_head(rule, in, [rule](const Head& h, const Tensor& y) {
    Tensor S = full(h.k.size(1), h.v.size(1), 0), z = full(1, h.k.size(1), 0);
    for (int64_t t = 0; t < y.size(0); ++t) {
      const Tensor q = h.q.rows(t, 1), k = h.k.rows(t, 1), v = h.v.rows(t, 1);
      if (is_delta(rule)) {
        S = ops::scale(S, h.decay[static_cast<size_t>(t)]);
        const Tensor written =
            ops::scale(subtract(v, ops::matmul(k, S)), h.weight[static_cast<size_t>(t)]);
        S = ops::add(S, ops::matmul(k, written, true));
        ops::copy_into(ops::matmul(q, S), y.rows(t, 1));
      } else {
        const Tensor weighted = ops::scale(k, h.weight[static_cast<size_t>(t)]);
        S = ops::add(ops::scale(S, h.decay[static_cast<size_t>(t)]),
                     ops::matmul(weighted, v, true));
        z = ops::add(ops::scale(z, h.decay[static_cast<size_t>(t)]), weighted);
        ops::copy_into(divide(ops::matmul(q, S), ops::matmul(q, z, false, true)), y.rows(t, 1));
      }
    }
  });
}

// Chunk by chunk, causal: inside a chunk all weights at once, before it by the state. With l_i the
// sum of log g from the start of the chunk to i, a gated chunk is one of the sum rule with queries
// exp(l_i) phi(q_i) and keys w_j exp(-l_j) phi(k_j). Without gradients -> [B,H,N,M].
inline Tensor chunked(Rule rule, const Inputs& in, int64_t chunk) {
  return each_head(rule, in, [rule, chunk](const Head& h, const Tensor& y) {
    Tensor S = full(h.k.size(1), h.v.size(1), 0), z = full(h.k.size(1), 1, 0);
    for (int64_t first = 0; first < y.size(0); first += chunk) {
      const int64_t C = std::min(chunk, y.size(0) - first);
      const double* w = h.weight.data() + first;
      std::vector<double> decay, weight;  // exp(l_i); w_j exp(-l_j), without w of delta rules
      for (int64_t i = 0; i < C; ++i) {
        decay.push_back((i == 0 ? 1 : decay.back()) * h.decay[static_cast<size_t>(first + i)]);
        weight.push_back((is_delta(rule) ? 1 : w[i]) / decay.back());
      }
      const Tensor Q = scale_rows(h.q.rows(first, C), decay.data());
      const Tensor K = scale_rows(h.k.rows(first, C), weight.data());
      const Tensor V = h.v.rows(first, C), ones = full(C, 1, 1);
      const Tensor A = ops::mask_causal(ops::matmul(Q, K, false, true), 0);
      const auto read = [&](const Tensor& state, const Tensor& x) {
        return ops::add(ops::matmul(Q, state), ops::matmul(A, x));
      };
      const auto update = [&](const Tensor& state, const Tensor& x) {
        return ops::scale(ops::add(state, ops::matmul(K, x, true)), decay.back());
      };
      if (is_delta(rule)) {  // X = B (V - K' S - the strict lower part of (K' K^T) X)
        const Tensor read_keys = scale_rows(h.k.rows(first, C), decay.data());
        const Tensor strengths = scale_rows(ops::matmul(read_keys, K, false, true), w);
        const Tensor E = scale_rows(subtract(V, ops::matmul(read_keys, S)), w);
        const Tensor X = solve_unit_lower(Var(strengths), Var(E)).value();
        ops::copy_into(read(S, X), y.rows(first, C));
        S = update(S, X);
      } else {
        ops::copy_into(divide(read(S, V), read(z, ones)), y.rows(first, C));
        S = update(S, V);
        z = update(z, ones);
      }
    }
  });
}

}  // namespace linea::naive
