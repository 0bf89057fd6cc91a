// Tools of the conformance checks: inputs, runs with gradients, rows selected and replaced on the
// host, comparisons.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "autograd/decisions.h"
#include "autograd/gradcheck.h"
#include "base/scoped.h"
#include "nn/attention.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea::conformance {

// All different and none a power of two, so that swapped sizes show.
struct Sizes {
  int64_t batch = 2, heads = 3, length = 257, key_size = 5, value_size = 7;
};

// q, k [B,H,N,D], v, dy [B,H,N,M], gates [B,H,N,2], of which an attention with one gate takes the
// first: the same numbers in f32 and in f64.
struct Inputs {
  Tensor q, k, v, dy, gate;
  Inputs with_dy(const Tensor& other) const { return {q, k, v, other, gate}; }
  // f of each.
  template <typename F>
  Inputs map(const F& f) const {
    return {f(q), f(k), f(v), f(dy), f(gate)};
  }
};

// dgate is undefined without gates; dparameters are the gradients of the attention's parameters.
struct Outcome {
  Tensor y, dq, dk, dv, dgate{};
  std::vector<Tensor> dparameters{};
  Decisions decisions{};
  // The gradients that have rows, by name.
  std::vector<std::pair<const char*, Tensor>> gradients() const {
    std::vector<std::pair<const char*, Tensor>> all = {{"dq", dq}, {"dk", dk}, {"dv", dv}};
    if (dgate.defined()) all.emplace_back("dgate", dgate);
    return all;
  }
  // f of each tensor that has rows.
  template <typename F>
  Outcome map(const F& f) const {
    return {f(y), f(dq), f(dk), f(dv), dgate.defined() ? f(dgate) : Tensor(), {}, {}};
  }
};

// How many of the indices that were decided differ.
inline double different_decisions(const Decisions& a, const Decisions& b) {
  if (a.size() != b.size()) return 1;
  double different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<int32_t> left = a[i].to_vector<int32_t>(), right = b[i].to_vector<int32_t>();
    if (left.size() != right.size()) return 1;
    for (size_t j = 0; j < left.size(); ++j) different += left[j] != right[j] ? 1 : 0;
  }
  return different;
}

// The largest number that a check measures, and where.
struct Worst {
  double value = 0;
  std::string where;
  void take(double measured, const std::string& location = {}) {
    if (std::isnan(value) || measured <= value) return;
    value = measured;
    where = location;
  }
};

struct Threads : Scoped<int> {
  explicit Threads(int count) : Scoped(context().threads, count) {}
};

inline Tensor in_dtype(const Tensor& x, DType dtype) {
  return Tensor::from(x.to_doubles(), x.shape(), dtype);
}
inline Inputs in_dtype(const Inputs& x, DType dtype) {
  return x.map([dtype](const Tensor& t) { return in_dtype(t, dtype); });
}

// ConformanceOptions::saved_inputs of the check that runs.
inline thread_local bool draws_saved_inputs = false;

inline Inputs draw(const Sizes& sizes, DType dtype, double stddev = 1.0, uint32_t stream_id = 1,
                   double away = 1e-3) {
  const Shape keys{sizes.batch, sizes.heads, sizes.length, sizes.key_size};
  const Shape values = keys.with(-1, sizes.value_size);
  const auto normal = [&](const Shape& shape, uint32_t offset, double scale) {
    return random_tensor(shape, stream_id + offset, scale, away, DType::f32);
  };
  // Gates between 0.05 and 0.95, many near the upper end, as trained ones are.
  const std::vector<double> first = normal(keys.with(-1, 1), 4, 1.0).to_doubles(),
                            second = normal(keys.with(-1, 1), 5, 1.0).to_doubles();
  std::vector<double> gates;
  for (size_t i = 0; i < first.size(); ++i)
    for (const double x : {first[i], second[i]})
      gates.push_back(0.05 + 0.9 / (1 + std::exp(-1 - 2 * x)));
  const auto saved = [](const Tensor& x) {
    if (!draws_saved_inputs) return x;
    return ops::cast(ops::cast(x, saved_dtype(x.dtype())), x.dtype());
  };
  return in_dtype({saved(normal(keys, 0, stddev)), saved(normal(keys, 1, stddev)),
                   saved(normal(values, 2, 1.0)), normal(values, 3, 1.0),
                   Tensor::from(gates, keys.with(-1, 2))},
                  dtype);
}

// visit(i, b, n) of every element i of x [B,H,N,W].
template <typename Visit>
void each_element(const Tensor& x, const Visit& visit) {
  const int64_t N = x.size(2), W = x.size(3), per_sequence = x.size(1) * N * W;
  for (int64_t i = 0; i < x.numel(); ++i)
    visit(static_cast<size_t>(i), i / per_sequence, i / W % N);
}

inline bool anywhere(int64_t, int64_t) { return true; }

// Rows (b, h, n) of x [B,H,N,W], those of `other` where takes(b, n).
template <typename Takes>
Tensor blend(const Tensor& x, const Tensor& other, const Takes& takes) {
  std::vector<double> values = x.to_doubles();
  const std::vector<double> others = other.to_doubles();
  each_element(x, [&](size_t i, int64_t b, int64_t n) {
    if (takes(b, n)) values[i] = others[i];
  });
  return Tensor::from(values, x.shape(), x.dtype());
}

// How many elements of a and b differ in their bits, in the rows where counts(b, n).
template <typename Counts>
double different_bits(const Tensor& a, const Tensor& b, const Counts& counts) {
  const std::vector<double> left = a.to_doubles(), right = b.to_doubles();
  double different = 0;
  each_element(a, [&](size_t i, int64_t sequence, int64_t n) {
    const auto bits = [i](const std::vector<double>& x) { return std::bit_cast<uint64_t>(x[i]); };
    if (counts(sequence, n) && bits(left) != bits(right)) ++different;
  });
  return different;
}

// The largest |x| in the rows where counts(b, n).
template <typename Counts>
double largest(const Tensor& x, const Counts& counts) {
  const std::vector<double> values = x.to_doubles();
  Worst worst;
  each_element(x, [&](size_t i, int64_t b, int64_t n) {
    if (counts(b, n)) worst.take(std::abs(values[i]));
  });
  return worst.value;
}

// Rows row(0), row(1), ... of x [...,W] as a tensor [...,W] of this shape.
template <typename Row>
Tensor gather_rows(const Tensor& x, const Shape& shape, const Row& row) {
  const std::vector<double> values = x.to_doubles();
  const int64_t W = x.size(-1);
  std::vector<double> result(static_cast<size_t>(shape.numel()));
  for (int64_t i = 0; i < shape.numel(); ++i)
    result[static_cast<size_t>(i)] = values[static_cast<size_t>(row(i / W) * W + i % W)];
  return Tensor::from(result, shape, x.dtype());
}

// The first `length` positions of the listed sequences and heads of x [B,H,N,W], in that order.
inline Tensor pick(const Tensor& x, const std::vector<size_t>& batches,
                   const std::vector<size_t>& heads, int64_t length) {
  const auto B = static_cast<int64_t>(batches.size()), H = static_cast<int64_t>(heads.size());
  return gather_rows(x, {B, H, length, x.size(3)}, [&](int64_t row) {
    const auto bh = static_cast<size_t>(row / length);
    const size_t from = batches[bh / heads.size()] * static_cast<size_t>(x.size(1));
    return static_cast<int64_t>(from + heads[bh % heads.size()]) * x.size(2) + row % length;
  });
}

// Position n of x [B,H,N,W] as [B,H,1,W].
inline Tensor at_position(const Tensor& x, int64_t n) {
  return gather_rows(x, x.shape().with(2, 1), [&](int64_t bh) { return bh * x.size(2) + n; });
}

// Gates [B,H,N,2] as an attention takes them: in turn; or, where it does not take numbers from 0 to 1,
// as their logits around the initial biases.
inline Tensor gates_for(const Attention& attention, const Tensor& gate) {
  const GateSpec& spec = attention.gate();
  const int64_t size = spec.size, given = gate.size(3), H = gate.size(1), N = gate.size(2);
  if (size == given && spec.values.empty()) return gate;
  const std::vector<double> all = gate.to_doubles();
  std::vector<double> values;
  for (int64_t row = 0; row < gate.numel() / given; ++row)
    for (int64_t i = 0; i < size; ++i) {
      const double g = all[static_cast<size_t>(row * given + i % given)];
      values.push_back(spec.values.empty() ? g : std::log(g / (1 - g)));
      if (!spec.values.empty() && !spec.initial_bias.empty())
        values.back() += spec.initial_bias[static_cast<size_t>(row / N % H * size + i)];
    }
  return Tensor::from(values, gate.shape().with(-1, size), gate.dtype());
}

inline AttentionInputs inputs_for(const Attention& attention, const Inputs& x, bool gradients) {
  AttentionInputs in{Var(x.q, gradients), Var(x.k, gradients), Var(x.v, gradients), Var()};
  if (attention.gate().size == 0) return in;
  in.gate = Var(gates_for(attention, x.gate), gradients);
  if (!attention.gate().values.empty()) in.gate_form = GateForm::logit;
  return in;
}

// Position n of all inputs.
inline AttentionInputs step_at(const Attention& attention, const Inputs& x, int64_t n) {
  return inputs_for(attention, x.map([n](const Tensor& t) { return at_position(t, n); }), false);
}

using Method = Var (Attention::*)(const AttentionInputs&, const AttentionMask&) const;

inline Outcome run(const Attention& attention, Method method, const AttentionInputs& in,
                   const Tensor& dy, const AttentionMask& mask) {
  for (const Parameter& parameter : attention.parameters()) Var(parameter.var).clear_grad();
  Outcome outcome;
  const RecordDecisions record(outcome.decisions);
  const Var y = (attention.*method)(in, mask);
  backward(y, dy);
  outcome.y = y.value();
  const auto gradient = [](const Var& x, bool read) {
    return read ? x.grad() : Tensor::zeros(x.shape(), x.dtype());
  };
  outcome.dq = gradient(in.q, attention.traits().reads_queries);
  outcome.dk = gradient(in.k, attention.traits().reads_keys);
  outcome.dv = in.v.grad();
  if (in.gate.defined()) outcome.dgate = in.gate.grad();
  for (const Parameter& parameter : attention.parameters())
    outcome.dparameters.push_back(parameter.var.grad());
  return outcome;
}

inline Outcome run(const Attention& attention, Method method, const Inputs& x,
                   const AttentionMask& mask) {
  return run(attention, method, inputs_for(attention, x, true), x.dy, mask);
}

// With one position y = v: dq and dk are 0 up to rounding, so errors are relative to 1e-3 at least.
inline double gradient_error(const Outcome& a, const Outcome& b) {
  Worst worst;
  const auto of_a = a.gradients(), of_b = b.gradients();
  for (size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i)
    worst.take(relative_error(of_a[i].second, of_b[i].second, 1e-3));
  for (size_t i = 0; i < std::min(a.dparameters.size(), b.dparameters.size()); ++i)
    worst.take(relative_error(a.dparameters[i], b.dparameters[i], 1e-3));
  return worst.value;
}

}  // namespace linea::conformance
