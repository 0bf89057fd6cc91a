#include "autograd/rules/naive_tools.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/qkv_layout.h"
#include "tensor/ops.h"

namespace linea::naive {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double finite_or_zero(double x) { return std::isfinite(x) ? x : 0; }

// Logs q and k [B,H,N,F] as exp(q_if + c_f - m_i) and exp(k_jf - c_f) in f64, with c_f = max_j k_jf
// and m_i = max_f(q_if + c_f).
struct ExpFeatures {
  Tensor q, k;
  std::vector<double> logs_q, logs_k, row_max;
};
ExpFeatures exp_features(const Tensor& q, const Tensor& k) {
  const size_t F = size_of(k, 3), keys = size_of(k, 2) * F, queries = size_of(q, 2) * F;
  ExpFeatures result{{}, {}, q.to_doubles(), k.to_doubles(), {}};
  std::vector<double> exp_q = result.logs_q, exp_k = result.logs_k;
  for (size_t head = 0; head * keys < exp_k.size(); ++head) {
    std::vector<double> c(F, kMinusInfinity);
    double* const ks = exp_k.data() + head * keys;
    for (size_t i = 0; i < keys; ++i) c[i % F] = std::max(c[i % F], ks[i]);
    for (double& max : c) max = finite_or_zero(max);
    for (size_t i = 0; i < keys; ++i) ks[i] = std::exp(ks[i] - c[i % F]);
    for (size_t row = head * queries; row < (head + 1) * queries; row += F) {
      double m = kMinusInfinity;
      for (size_t f = 0; f < F; ++f) m = std::max(m, exp_q[row + f] + c[f]);
      m = finite_or_zero(m);
      for (size_t f = 0; f < F; ++f) exp_q[row + f] = std::exp(exp_q[row + f] + c[f] - m);
      result.row_max.push_back(m);
    }
  }
  result.q = Tensor::from(exp_q, q.shape());
  result.k = Tensor::from(exp_k, k.shape());
  return result;
}

// log sum_f exp(q_f + k_f)
double log_product(const double* q, const double* k, size_t F) {
  double max = kMinusInfinity, sum = 0;
  for (size_t f = 0; f < F; ++f) max = std::max(max, q[f] + k[f]);
  if (!std::isfinite(max)) return max;
  for (size_t f = 0; f < F; ++f) sum += std::exp(q[f] + k[f] - max);
  return max + std::log(sum);
}

// Products of exponentials in double below this one may lack terms that underflow.
constexpr double kSmallest = 1e-200;

}  // namespace

// y_ij = log sum_f exp(q_if + k_jf);  dq_if = sum_j dy_ij exp(q_if + k_jf - y_ij), dk_jf likewise
Var log_scores(const Var& q, const Var& k) {
  const ExpFeatures e = exp_features(q.value(), k.value());
  const Tensor products = ops::matmul(e.q, e.k, false, true);
  const size_t N = size_of(products, 2), K = size_of(products, 3), F = size_of(e.k, 3);
  const std::vector<double> sums = products.to_doubles();
  std::vector<double> logs(sums.size());
  // The rows of logs that pair p is made from.
  const auto query = [=](size_t p) { return p / K * F; };
  const auto key = [=](size_t p) { return (p / (N * K) * K + p % K) * F; };
  for (size_t p = 0; p < sums.size(); ++p)
    logs[p] = sums[p] >= kSmallest ? std::log(sums[p]) + e.row_max[p / K]
                                   : log_product(&e.logs_q[query(p)], &e.logs_k[key(p)], F);
  return Var::from_op(
      "log_scores", Tensor::from(logs, products.shape(), q.dtype()), {q, k},
      [=, q_shape = q.shape(), k_shape = k.shape()](const Tensor& dy) -> Gradients {
        const std::vector<double> dlogs = dy.to_doubles();
        std::vector<double> shares(dlogs.size());  // dy_ij over the product; the others one by one
        for (size_t p = 0; p < shares.size(); ++p)
          shares[p] = sums[p] >= kSmallest ? dlogs[p] / sums[p] : 0;
        const Tensor along = Tensor::from(shares, products.shape());
        std::vector<double> dq = ops::multiply(e.q, ops::matmul(along, e.k)).to_doubles();
        std::vector<double> dk = ops::multiply(e.k, ops::matmul(along, e.q, true)).to_doubles();
        for (size_t p = 0; p < shares.size(); ++p) {
          if (sums[p] >= kSmallest || dlogs[p] == 0 || !std::isfinite(logs[p])) continue;
          for (size_t f = 0; f < F; ++f) {
            const size_t i = query(p) + f, j = key(p) + f;
            const double part = dlogs[p] * std::exp(e.logs_q[i] + e.logs_k[j] - logs[p]);
            dq[i] += part;
            dk[j] += part;
          }
        }
        return {Tensor::from(dq, q_shape, dy.dtype()), Tensor::from(dk, k_shape, dy.dtype())};
      });
}

Var exp_rows(const Var& x) {
  const size_t N = size_of(x.value(), -1);
  std::vector<double> values = x.value().to_doubles();
  for (size_t row = 0; row < values.size(); row += N) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row),
               end = first + static_cast<std::ptrdiff_t>(N);
    std::fill(first, end, -finite_or_zero(*std::max_element(first, end)));
  }
  return exp(add(x, Var(Tensor::from(values, x.shape(), x.dtype()))));
}

Inputs make_inputs(const FeatureMapPtr& map, const AttentionInputs& in, const RuleGates& gates,
                   const Tensor& valid) {
  check_heads("quadratic", in, valid, gates);
  const FeatureVars q = apply_features(map, in.q, Side::query),
                    k = apply_features(map, clear_padding(in.k, valid), Side::key);
  Inputs result{q.rows, k.rows, clear_padding(in.v, valid), gates,
                map->kind() == FeatureKind::logs};
  if (k.weight.defined()) {
    const std::vector<double> weights = k.weight.value().to_doubles();
    const double max = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    const Var weight = add(k.weight, Var(Tensor::full(k.weight.shape(), k.weight.dtype(), -max)));
    Var& all = result.gates.log_weight;
    all = all.defined() ? add(all, weight) : weight;
  }
  return result;
}

Tensor log_mask(const Shape& scores, DType dtype, const AttentionMask& mask,
                const Allowed& allowed) {
  const int64_t B = scores[0], H = scores[1], N = scores[2], K = scores[3];
  const std::vector<int32_t> valid = mask.lengths(B, K);
  std::vector<double> values;
  for (int64_t p = 0; p < B * H; ++p) {
    const int64_t keys = valid[static_cast<size_t>(p / H)];
    for (int64_t i = 0; i < N; ++i)
      for (int64_t j = 0; j < K; ++j)
        values.push_back(j < keys && (!mask.causal || j <= i) && (!allowed || allowed(p, i, j))
                             ? 0
                             : kMinusInfinity);
  }
  return Tensor::from(values, scores, dtype);
}

Var softmax_attention(const Var& scores, const Var& v, const AttentionMask& mask,
                      const Allowed& allowed) {
  const Tensor visible = log_mask(scores.shape(), scores.dtype(), mask, allowed);
  return matmul(softmax(add(scores, Var(visible))), v);
}

Var as_rows(const Var& x, int64_t columns) {
  return matmul(reshape(x, {x.size(0), x.size(1), x.size(2), 1}),
                Var(Tensor::full({1, columns}, x.dtype(), 1.0)));
}

Var as_columns(const Var& x, int64_t rows) {
  const int64_t B = x.size(0), H = x.size(1), N = x.size(2);
  return matmul(Var(Tensor::full({B, H, rows, 1}, x.dtype(), 1.0)), reshape(x, {B, H, 1, N}));
}

// y_ij = sum_{j < t <= i} l_t;  dl_t = sum_{j < t <= i} dy_ij, over the pairs around t
Var decays_between(const Var& log_decay) {
  const int64_t B = log_decay.size(0), H = log_decay.size(1);
  const size_t N = size_of(log_decay.value(), 2);
  const std::vector<double> logs = log_decay.value().to_doubles();
  std::vector<double> sums(logs.size() * N);
  for (size_t row = 0; row < logs.size(); ++row)  // row = head N + i
    for (size_t j = row % N; j > 0; --j)
      sums[row * N + j - 1] = sums[row * N + j] + logs[row / N * N + j];
  const Shape pairs{B, H, log_decay.size(2), log_decay.size(2)};
  return Var::from_op("decays_between", Tensor::from(sums, pairs, log_decay.dtype()), {log_decay},
                      [=, shape = log_decay.shape()](const Tensor& dy) {
                        std::vector<double> dpairs = dy.to_doubles(), dlogs(logs.size());
                        for (size_t row = 0; row < dlogs.size(); ++row) {
                          double before = 0;  // sum_{j < t} dy_ij
                          for (size_t t = 1; t <= row % N; ++t) {
                            before += dpairs[row * N + t - 1];
                            dlogs[row / N * N + t] += before;
                          }
                        }
                        return Tensor::from(dlogs, shape, dy.dtype());
                      });
}

// dq_if = sum_j dy_ij k_jf e, dk_jf = sum_i dy_ij q_if e, dl_tf = sum_{j < t <= i} dy_ij q_if k_jf e
Var channel_products(const Var& q, const Var& k, const Var& log_decay) {
  const size_t N = size_of(q.value(), 2), F = size_of(q.value(), 3),
               heads = size_of(q.value(), 0) * size_of(q.value(), 1);
  const std::vector<double> qs = q.value().to_doubles(), ks = k.value().to_doubles(),
                            logs = log_decay.value().to_doubles();
  // visit(pair, row of q, row of k, exp(l_{j+1} + ... + l_i)) of every i, f and j <= i, from i on down.
  const auto each = [=](const auto& visit) {
    for (size_t row = 0; row < heads * N; ++row)
      for (size_t f = 0; f < F; ++f) {
        double sum = 0;
        for (size_t back = 0; back <= row % N; ++back) {
          visit(row * N + row % N - back, row * F + f, (row - back) * F + f, std::exp(sum));
          sum += logs[(row - back) * F + f];
        }
      }
  };
  std::vector<double> products(heads * N * N);
  each([&](size_t pair, size_t i, size_t j, double e) { products[pair] += qs[i] * ks[j] * e; });
  return Var::from_op(
      "channel_products",
      Tensor::from(products, {q.size(0), q.size(1), q.size(2), q.size(2)}, q.dtype()),
      {q, k, log_decay}, [=, shape = q.shape()](const Tensor& dy) -> Gradients {
        const std::vector<double> d = dy.to_doubles();
        std::vector<double> dq(qs.size()), dk(ks.size()), dl(logs.size());
        each([&](size_t pair, size_t i, size_t j, double e) {
          dq[i] += d[pair] * ks[j] * e;
          dk[j] += d[pair] * qs[i] * e;
          for (size_t t = j + F; t <= i; t += F) dl[t] += d[pair] * qs[i] * ks[j] * e;
        });
        return {Tensor::from(dq, shape, dy.dtype()), Tensor::from(dk, shape, dy.dtype()),
                Tensor::from(dl, shape, dy.dtype())};
      });
}

}  // namespace linea::naive
