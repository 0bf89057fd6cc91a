// Tools of the conformance checks: inputs, runs with gradients, rows selected and replaced on the
// host, comparisons.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "nn/attention.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea::conformance {

// All different and none a power of two, so that swapped sizes show.
struct Sizes {
  int64_t batch = 2, heads = 3, length = 257, key_size = 5, value_size = 7;
};

// q, k [B,H,N,D], v, dy [B,H,N,M], gates [B,H,N,1]: the same numbers in f32 and in f64.
struct Inputs {
  Tensor q, k, v, dy, gate;
  Inputs with_dy(const Tensor& other) const { return {q, k, v, other, gate}; }
};

// dgate is undefined without gates; dparameters are the gradients of the attention's parameters.
struct Outcome {
  Tensor y, dq, dk, dv, dgate{};
  std::vector<Tensor> dparameters{};
};

// The largest number that a check measures, and where.
struct Worst {
  double value = 0;
  std::string where;
  void take(double measured, const std::string& location) {
    if (std::isnan(value) || measured <= value) return;
    value = measured;
    where = location;
  }
};

// select(x) of every tensor [B,H,N,W]; parameters have no rows and are left out.
template <typename Select>
Inputs select_rows(const Inputs& x, const Select& select) {
  return {select(x.q), select(x.k), select(x.v), select(x.dy), select(x.gate)};
}
template <typename Select>
Outcome select_rows(const Outcome& o, const Select& select) {
  const auto where_defined = [&](const Tensor& t) { return t.defined() ? select(t) : Tensor(); };
  return {where_defined(o.y), select(o.dq), select(o.dk), select(o.dv), where_defined(o.dgate), {}};
}

class Threads {
 public:
  explicit Threads(int count) : before_(context().threads) { set_threads(count); }
  ~Threads() { set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

inline Tensor in_dtype(const Tensor& x, DType dtype) {
  const std::vector<double> values = x.to_doubles();
  if (dtype == DType::f64) return Tensor::from(values, x.shape());
  return Tensor::from(std::vector<float>(values.begin(), values.end()), x.shape());
}

inline Inputs in_dtype(const Inputs& x, DType dtype) {
  return {in_dtype(x.q, dtype), in_dtype(x.k, dtype), in_dtype(x.v, dtype), in_dtype(x.dy, dtype),
          in_dtype(x.gate, dtype)};
}

inline Inputs draw(const Sizes& sizes, DType dtype, double stddev = 1.0, uint32_t stream_id = 1,
                   double away = 1e-3) {
  const Shape keys{sizes.batch, sizes.heads, sizes.length, sizes.key_size};
  const Shape values = keys.with(-1, sizes.value_size);
  const auto normal = [&](const Shape& shape, uint32_t offset, double scale) {
    return random_tensor(shape, stream_id + offset, scale, away, DType::f32);
  };
  // Gates between 0.05 and 0.95, many near the upper end, as trained ones are.
  std::vector<double> gates = normal(keys.with(-1, 1), 4, 1.0).to_doubles();
  for (double& gate : gates) gate = 0.05 + 0.9 / (1 + std::exp(-1 - 2 * gate));
  return in_dtype({normal(keys, 0, stddev), normal(keys, 1, stddev), normal(values, 2, 1.0),
                   normal(values, 3, 1.0), Tensor::from(gates, keys.with(-1, 1))},
                  dtype);
}

// Rows (b, h, n) of x [B,H,N,W], those of `other` where takes(b, n).
template <typename Takes>
Tensor blend(const Tensor& x, const Tensor& other, const Takes& takes) {
  std::vector<double> values = x.to_doubles();
  const std::vector<double> others = other.to_doubles();
  const int64_t N = x.size(2), W = x.size(3), per_sequence = x.size(1) * N * W;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (takes(i / per_sequence, i / W % N))
      values[static_cast<size_t>(i)] = others[static_cast<size_t>(i)];
  return in_dtype(Tensor::from(values, x.shape()), x.dtype());
}

// The first `length` positions of the listed sequences and heads of x [B,H,N,W], in that order.
inline Tensor pick(const Tensor& x, const std::vector<int64_t>& batches,
                   const std::vector<int64_t>& heads, int64_t length) {
  const std::vector<double> values = x.to_doubles();
  const int64_t H = x.size(1), N = x.size(2), W = x.size(3);
  std::vector<double> result;
  for (const int64_t b : batches) {
    for (const int64_t h : heads) {
      const auto first = values.begin() + (b * H + h) * N * W;
      result.insert(result.end(), first, first + length * W);
    }
  }
  const Shape shape{static_cast<int64_t>(batches.size()), static_cast<int64_t>(heads.size()),
                    length, W};
  return in_dtype(Tensor::from(result, shape), x.dtype());
}

// Position n of x [B,H,N,W] as [B,H,W].
inline Tensor at_position(const Tensor& x, int64_t n) {
  const std::vector<double> values = x.to_doubles();
  const int64_t N = x.size(2), W = x.size(3);
  std::vector<double> result;
  for (int64_t bh = 0; bh < x.size(0) * x.size(1); ++bh) {
    const auto first = values.begin() + (bh * N + n) * W;
    result.insert(result.end(), first, first + W);
  }
  return in_dtype(Tensor::from(result, {x.size(0), x.size(1), W}), x.dtype());
}

// Position n of all inputs.
inline AttentionStep step_at(const Attention& attention, const Inputs& x, int64_t n) {
  AttentionStep step{at_position(x.q, n), at_position(x.k, n), at_position(x.v, n), Tensor()};
  if (attention.gated()) step.gate = at_position(x.gate, n).reshape({x.q.size(0), x.q.size(1)});
  return step;
}

// How many elements of a and b differ in their bits, and the largest |x|, in the rows where
// counts(b, n).
template <typename Counts>
double different_bits(const Tensor& a, const Tensor& b, const Counts& counts) {
  std::vector<char> left(a.bytes()), right(b.bytes());
  a.read(left.data());
  b.read(right.data());
  const size_t each = size_of(a.dtype());
  const int64_t N = a.size(2), W = a.size(3), per_sequence = a.size(1) * N * W;
  double different = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const size_t at = static_cast<size_t>(i) * each;
    if (counts(i / per_sequence, i / W % N) && std::memcmp(&left[at], &right[at], each) != 0)
      ++different;
  }
  return different;
}

template <typename Counts>
double largest(const Tensor& x, const Counts& counts) {
  const std::vector<double> values = x.to_doubles();
  const int64_t N = x.size(2), W = x.size(3), per_sequence = x.size(1) * N * W;
  Worst worst;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (counts(i / per_sequence, i / W % N))
      worst.take(std::abs(values[static_cast<size_t>(i)]), "");
  return worst.value;
}

using Method = Var (Attention::*)(const AttentionInputs&, const AttentionMask&) const;

// Gates [B,H,N,1] as an attention takes them; undefined where it has none.
inline Tensor gates_for(const Attention& attention, const Tensor& gate) {
  return attention.gated() ? gate.reshape({gate.size(0), gate.size(1), gate.size(2)}) : Tensor();
}

inline Outcome run(const Attention& attention, Method method, const Inputs& x,
                   const AttentionMask& mask) {
  const Var q(x.q, true), k(x.k, true), v(x.v, true);
  const Tensor gates = gates_for(attention, x.gate);
  const Var gate = gates.defined() ? Var(gates, true) : Var();
  for (const Parameter& parameter : attention.parameters()) Var(parameter.var).clear_grad();
  const Var y = (attention.*method)({q, k, v, gate}, mask);
  backward(y, x.dy);
  Outcome outcome{y.value(), q.grad(), k.grad(), v.grad()};
  if (gate.defined()) outcome.dgate = gate.grad().reshape(x.gate.shape());
  for (const Parameter& parameter : attention.parameters())
    outcome.dparameters.push_back(parameter.var.grad());
  return outcome;
}

// Of one position y = v: dq and dk are 0 but for rounding, so errors are relative to 1e-3 at least.
inline double gradient_error(const Outcome& a, const Outcome& b) {
  Worst worst;
  worst.take(relative_error(a.dq, b.dq, 1e-3), "");
  worst.take(relative_error(a.dk, b.dk, 1e-3), "");
  worst.take(relative_error(a.dv, b.dv, 1e-3), "");
  if (a.dgate.defined() && b.dgate.defined())
    worst.take(relative_error(a.dgate, b.dgate, 1e-3), "");
  for (size_t i = 0; i < a.dparameters.size() && i < b.dparameters.size(); ++i)
    worst.take(relative_error(a.dparameters[i], b.dparameters[i], 1e-3), "");
  return worst.value;
}

// Valid keys of six sequences of 97: all, none, one, and around a border of segments of 40.
inline std::vector<int64_t> padded_counts() { return {97, 0, 1, 40, 41, 96}; }

inline AttentionMask padded_mask(bool causal) {
  const std::vector<int64_t> counts = padded_counts();
  const std::vector<int32_t> valid(counts.begin(), counts.end());
  return {causal, Tensor::from(valid, {static_cast<int64_t>(valid.size())})};
}

}  // namespace linea::conformance
