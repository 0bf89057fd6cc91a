#include "nn/attention/naive_tools.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/qkv_layout.h"

namespace linea::naive {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double finite_or_zero(double x) { return std::isfinite(x) ? x : 0; }

// q and k, logs [B,H,N,F], become exp(q_if + c_f - m_i) and exp(k_jf - c_f), with c_f = max_j k_jf
// and m_i = max_f(q_if + c_f).
void take_exp(Var& q, Var& k) {
  const auto F = static_cast<size_t>(k.size(3)), rows = static_cast<size_t>(k.size(2));
  const std::vector<double> logs_q = q.value().to_doubles(), logs_k = k.value().to_doubles();
  std::vector<double> shift_q(logs_q.size()), shift_k(logs_k.size());
  for (size_t first = 0; first < logs_k.size(); first += rows * F) {  // of a sequence and head
    std::vector<double> c(F, kMinusInfinity);
    for (size_t i = 0; i < rows * F; ++i) c[i % F] = std::max(c[i % F], logs_k[first + i]);
    for (double& max : c) max = finite_or_zero(max);
    for (size_t row = first; row < first + rows * F; row += F) {
      double m = kMinusInfinity;
      for (size_t f = 0; f < F; ++f) m = std::max(m, logs_q[row + f] + c[f]);
      for (size_t f = 0; f < F; ++f) {
        shift_q[row + f] = c[f] - finite_or_zero(m);
        shift_k[row + f] = -c[f];
      }
    }
  }
  q = exp(add(q, Var(Tensor::from(shift_q, q.shape(), q.dtype()))));
  k = exp(add(k, Var(Tensor::from(shift_k, k.shape(), k.dtype()))));
}

}  // namespace

Inputs make_inputs(Rule rule, const std::shared_ptr<const FeatureMap>& map,
                   const AttentionInputs& in, const AttentionMask& mask) {
  check_heads("quadratic", in, mask.valid, rule == Rule::gated_delta ? 2 : 1);
  require(rule == Rule::sum || mask.causal, "quadratic: a gate has an order of time: causal only");
  const FeatureVars q = apply_features(map, in.q, Side::query),
                    k = apply_features(map, clear_padding(in.k, mask.valid), Side::key);
  Inputs result{q.rows, k.rows, clear_padding(in.v, mask.valid), {}};
  if (rule == Rule::gated_delta) {  // [B,H,N,2]
    const Shape one = in.gate.shape();
    const Var both = split_heads(reshape(in.gate, {one[0] * one[1] * one[2], 1, 2}), 2, 1);
    const auto part = [&](int64_t index) {
      return clear_padding(reshape(select(both, index), {one[0], one[1], one[2]}), mask.valid);
    };
    result.gate = part(0);
    result.decay = part(1);
  } else if (in.gate.defined()) {
    result.gate = clear_padding(in.gate, mask.valid);
    if (rule == Rule::gated) result.decay = result.gate;
  }
  const bool logs = map->kind() == FeatureKind::logs;
  if (is_delta(rule)) {
    result.q = logs ? softmax(q.rows) : normalize(q.rows);
    result.k = logs ? softmax(k.rows) : normalize(k.rows);
    return result;
  }
  if (logs) take_exp(result.q, result.k);
  if (k.weight.defined()) {
    const std::vector<double> weights = k.weight.value().to_doubles();
    const double max = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    result.log_weight = add(k.weight, Var(Tensor::full(k.weight.shape(), k.weight.dtype(), -max)));
  }
  return result;
}

Tensor log_mask(const Shape& scores, DType dtype, const AttentionMask& mask) {
  const int64_t B = scores[0], H = scores[1], N = scores[2];
  const std::vector<int32_t> valid =
      mask.valid.defined() ? mask.valid.to_vector<int32_t>() : std::vector<int32_t>();
  std::vector<double> values;
  for (int64_t p = 0; p < B * H; ++p) {
    const int64_t keys = valid.empty() ? N : valid[static_cast<size_t>(p / H)];
    for (int64_t i = 0; i < N; ++i)
      for (int64_t j = 0; j < N; ++j)
        values.push_back(j < keys && (!mask.causal || j <= i) ? 0 : kMinusInfinity);
  }
  return Tensor::from(values, scores, dtype);
}

Var softmax_attention(const Var& scores, const Var& v, const AttentionMask& mask) {
  return matmul(softmax(add(scores, Var(log_mask(scores.shape(), scores.dtype(), mask)))), v);
}

Var as_rows(const Var& x, int64_t columns) {
  return matmul(reshape(x, {x.size(0), x.size(1), x.size(2), 1}),
                Var(Tensor::full({1, columns}, x.dtype(), 1.0)));
}

Var as_columns(const Var& x, int64_t rows) {
  const int64_t B = x.size(0), H = x.size(1), N = x.size(2);
  return matmul(Var(Tensor::full({B, H, rows, 1}, x.dtype(), 1.0)), reshape(x, {B, H, 1, N}));
}

Var log_decays(const Var& decay, const AttentionMask& mask) {
  const int64_t B = decay.size(0), H = decay.size(1), N = decay.size(2);
  const Var logs = clear_padding(pointwise(Pointwise::log_gate, decay), mask.valid);
  const Tensor past = ops::mask_causal(Tensor::full({N, N}, decay.dtype(), 1.0), 0.0);
  const Var L = reshape(matmul(reshape(logs, {B, H, 1, N}), Var(past), false, true), {B, H, N});
  return add(as_rows(L, N), as_columns(scale(L, -1), N));
}

Tensor each_head(Rule rule, const Inputs& in,
                 const std::function<void(const Head&, const Tensor&)>& form) {
  const NoGrad no_grad;
  const int64_t P = in.q.size(0) * in.q.size(1), N = in.q.size(2);
  const auto in_f64 = [&](const Var& x) {
    return Tensor::from(x.value().to_doubles(), {P, N, x.size(3)});
  };
  const Tensor q = in_f64(in.q), k = in_f64(in.k), v = in_f64(in.v), y(v.shape(), DType::f64);
  const auto scalars = [&](const Var& x, int64_t p) {
    if (!x.defined()) return std::vector<double>(static_cast<size_t>(N), 0.0);
    return x.value().reshape({P, N}).select(p).to_doubles();
  };
  for (int64_t p = 0; p < P; ++p) {
    Head head{q.select(p), k.select(p), v.select(p), scalars(in.gate, p), scalars(in.decay, p)};
    for (double& weight : head.weight)
      if (rule == Rule::gated) weight = 1 - weight;
    if (rule == Rule::sum) {
      head.weight = scalars(in.log_weight, p);
      for (double& weight : head.weight) weight = std::exp(weight);
    }
    if (!decays(rule)) head.decay.assign(static_cast<size_t>(N), 1.0);
    form(head, y.select(p));
  }
  return y.reshape(in.v.shape());
}

Tensor full(int64_t rows, int64_t columns, double value) {
  return Tensor::full({rows, columns}, DType::f64, value);
}

Tensor subtract(const Tensor& a, const Tensor& b) { return ops::add(a, ops::scale(b, -1)); }

Tensor scale_rows(const Tensor& x, const double* factors) {
  std::vector<double> values = x.to_doubles();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] *= factors[i / static_cast<size_t>(x.size(1))];
  return Tensor::from(values, x.shape());
}

Tensor divide(const Tensor& x, const Tensor& d) {
  std::vector<double> inverse = d.to_doubles();
  for (double& value : inverse) value = value == 0 ? 0 : 1 / value;
  return scale_rows(x, inverse.data());
}

}  // namespace linea::naive
