// The recurrences and the chunks of the kinds of update rules as their formulas are written, causal
// and without gradients: what their definitions and their fast forms are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "autograd/update_rule.h"
#include "tensor/ops.h"

namespace linea::written {

inline Tensor full(int64_t rows, int64_t columns, double value) {
  return Tensor::full({rows, columns}, DType::f64, value);
}

inline Tensor subtract(const Tensor& a, const Tensor& b) { return ops::add(a, ops::scale(b, -1)); }

// Rows of x [N,M] times factors [N].
inline Tensor scale_rows(const Tensor& x, const double* factors) {
  std::vector<double> values = x.to_doubles();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] *= factors[i / static_cast<size_t>(x.size(1))];
  return Tensor::from(values, x.shape());
}

// Rows of x [N,M] by d [N,1]; by 0 gives 0.
inline Tensor divide(const Tensor& x, const Tensor& d) {
  std::vector<double> inverse = d.to_doubles();
  for (double& value : inverse) value = value == 0 ? 0 : 1 / value;
  return scale_rows(x, inverse.data());
}

inline std::vector<double> exp_all(std::vector<double> logs) {
  for (double& x : logs) x = std::exp(x);
  return logs;
}

// One head in f64: q, k [N,F], v [N,M]; beta, and exp of the log weights, of each position, and exp
// of the log decays of each feature, [N,F].
struct Head {
  Tensor q, k, v;
  std::vector<double> beta, weight;
  Tensor decay;
  // S [F,...] at position t as it has decayed.
  Tensor decayed(const Tensor& S, int64_t t) const {
    return scale_rows(S, decay.select(t).to_doubles().data());
  }
};

// form(head, y [N,M]) of all heads -> y [B,H,N,M] in f64.
inline Tensor each_head(const naive::Inputs& in,
                        const std::function<void(const Head&, const Tensor&)>& form) {
  const NoGrad no_grad;
  const int64_t P = in.q.size(0) * in.q.size(1), N = in.q.size(2);
  const auto in_f64 = [&](const Var& x, bool logs = false) {
    const std::vector<double> values = x.value().to_doubles();
    return Tensor::from(logs ? exp_all(values) : values, {P, N, x.size(3)});
  };
  const Tensor q = in_f64(in.q, in.logs), k = in_f64(in.k, in.logs), v = in_f64(in.v),
               y(v.shape(), DType::f64);
  const auto scalars = [&](const Var& x, int64_t p) {
    if (!x.defined()) return std::vector<double>(static_cast<size_t>(N), 0.0);
    return x.value().reshape({P, N}).select(p).to_doubles();
  };
  // [N,F] of [P,N,F], or of [P,N] one for all features
  const auto decays = [&](int64_t p) {
    const Shape rows = q.select(p).shape();
    if (!in.gates.log_decay.defined()) return Tensor::full(rows, DType::f64, 1.0);
    const Tensor& all = in.gates.log_decay.value();
    const auto width = static_cast<size_t>(all.numel() / std::max<int64_t>(P * N, 1));
    const std::vector<double> logs =
        exp_all(all.reshape({P, all.numel() / P}).select(p).to_doubles());
    std::vector<double> wide;
    for (size_t i = 0; i < static_cast<size_t>(rows.numel()); ++i)
      wide.push_back(logs[width == 1 ? i / static_cast<size_t>(q.size(2)) : i]);
    return Tensor::from(wide, rows);
  };
  for (int64_t p = 0; p < P; ++p)
    form({q.select(p), k.select(p), v.select(p), scalars(in.gates.beta, p),
          exp_all(scalars(in.gates.log_weight, p)), decays(p)},
         y.select(p));
  return y.reshape(in.v.shape());
}

// Positions [first, first + C) of a head, C `chunk` or what is left. With l_i the sums of log
// decays from the start of the chunk to i, Q is exp(l_i) q_i, K is exp(-l_j) w_j k_j and A is Q K^T
// where j <= i: decays and weights are gone. The decays of a chunk must multiply to more than
// 1e-300.
struct Chunk {
  Chunk(const Head& head, int64_t first, int64_t chunk)
      : rows(std::min(chunk, head.q.size(0) - first)), V(head.v.rows(first, rows)) {
    const auto F = static_cast<size_t>(head.q.size(1));
    std::vector<double> decays = head.decay.rows(first, rows).to_doubles(), weights;
    for (size_t i = 0; i < decays.size(); ++i) {
      if (i >= F) decays[i] *= decays[i - F];
      weights.push_back(head.weight[static_cast<size_t>(first) + i / F] / decays[i]);
    }
    decay = Tensor::from(decays, {rows, head.q.size(1)});
    Q = ops::multiply(head.q.rows(first, rows), decay);
    K = ops::multiply(head.k.rows(first, rows), Tensor::from(weights, decay.shape()));
    A = ops::mask_causal(ops::matmul(Q, K, false, true), 0);
  }
  // Q S + A X
  Tensor read(const Tensor& S, const Tensor& X) const {
    return ops::add(ops::matmul(Q, S), ops::matmul(A, X));
  }
  // S at the end, of X written by K
  Tensor update(const Tensor& S, const Tensor& X) const {
    return scale_rows(ops::add(S, ops::matmul(K, X, true)),
                      decay.select(rows - 1).to_doubles().data());
  }
  int64_t rows;
  Tensor decay;  // exp(l_i) [C,F]
  Tensor Q, K, V, A;
};

// The sum rule (autograd/rules/sum.cpp).
inline Tensor summed(const naive::Inputs& in) {
  return each_head(in, [](const Head& head, const Tensor& y) {
    Tensor S = full(head.k.size(1), head.v.size(1), 0), z = full(1, head.k.size(1), 0);
    for (int64_t t = 0; t < y.size(0); ++t) {
      const double w = head.weight[static_cast<size_t>(t)];
      const Tensor q = head.q.rows(t, 1), k = ops::scale(head.k.rows(t, 1), w),
                   v = head.v.rows(t, 1);
      S = ops::add(head.decayed(S, t), ops::matmul(k, v, true));
      z = ops::add(ops::multiply(z, head.decay.rows(t, 1)), k);
      ops::copy_into(divide(ops::matmul(q, S), ops::matmul(q, z, false, true)), y.rows(t, 1));
    }
  });
}
inline Tensor summed_by_chunks(const naive::Inputs& in, int64_t chunk) {
  return each_head(in, [chunk](const Head& head, const Tensor& y) {
    Tensor S = full(head.k.size(1), head.v.size(1), 0), z = full(head.k.size(1), 1, 0);
    for (int64_t first = 0; first < y.size(0); first += chunk) {
      const Chunk c(head, first, chunk);
      const Tensor ones = full(c.rows, 1, 1);
      ops::copy_into(divide(c.read(S, c.V), c.read(z, ones)), y.rows(first, c.rows));
      S = c.update(S, c.V);
      z = c.update(z, ones);
    }
  });
}

// The rules without denominator (autograd/rules/delta.cpp).
inline Tensor corrected(const naive::Inputs& in, bool corrects) {
  return each_head(in, [corrects](const Head& head, const Tensor& y) {
    Tensor S = full(head.k.size(1), head.v.size(1), 0);
    for (int64_t t = 0; t < y.size(0); ++t) {
      const Tensor q = head.q.rows(t, 1), k = head.k.rows(t, 1), v = head.v.rows(t, 1);
      S = head.decayed(S, t);
      const Tensor missed = corrects ? subtract(v, ops::matmul(k, S)) : v;
      const Tensor x = ops::scale(missed, head.beta[static_cast<size_t>(t)]);
      S = ops::add(S, ops::matmul(k, x, true));
      ops::copy_into(ops::matmul(q, S), y.rows(t, 1));
    }
  });
}
// X = B (V - K' S - the strict lower part of (K' K^T) X), K'_i = exp(l_i) k_i the keys that read
inline Tensor corrected_by_chunks(const naive::Inputs& in, bool corrects, int64_t chunk) {
  return each_head(in, [corrects, chunk](const Head& head, const Tensor& y) {
    Tensor S = full(head.k.size(1), head.v.size(1), 0);
    for (int64_t first = 0; first < y.size(0); first += chunk) {
      const Chunk c(head, first, chunk);
      const double* beta = head.beta.data() + first;
      const Tensor readers = ops::multiply(head.k.rows(first, c.rows), c.decay);
      const Tensor strengths = scale_rows(ops::matmul(readers, c.K, false, true), beta);
      const Tensor E = scale_rows(subtract(c.V, ops::matmul(readers, S)), beta);
      const Tensor X =
          corrects ? solve_unit_lower(Var(strengths), Var(E)).value() : scale_rows(c.V, beta);
      ops::copy_into(c.read(S, X), y.rows(first, c.rows));
      S = c.update(S, X);
    }
  });
}

// Either kind.
inline Tensor recurrent(const UpdateRule& rule, const naive::Inputs& in) {
  return rule.has_denominators() ? summed(in) : corrected(in, rule.spec().kind.corrects);
}
inline Tensor by_chunks(const UpdateRule& rule, const naive::Inputs& in, int64_t chunk) {
  return rule.has_denominators() ? summed_by_chunks(in, chunk)
                                 : corrected_by_chunks(in, rule.spec().kind.corrects, chunk);
}

}  // namespace linea::written
