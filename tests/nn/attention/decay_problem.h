// The attentions without denominator whose gates are beta and the log of a decay, as loops over positions
// in double that share nothing with the library, and problems for them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/sanitized.h"

namespace linea::decay_tests {

using conformance::Outcome;
using conformance::Sizes;

// q, k, v, dy; beta [B,H,N], or 1 where undefined; log_decay [B,H,N,1] or [B,H,N,D].
struct Problem {
  conformance::Inputs x;
  Tensor beta, log_decay;
};

inline Problem problem(const Sizes& sizes, DType dtype, int64_t decays, bool weighs,
                       const std::function<double(int64_t position, int64_t channel)>& log_decay) {
  const Shape positions{sizes.batch, sizes.heads, sizes.length};
  Problem p{conformance::draw(sizes, dtype), {}, {}};
  std::vector<double> beta, logs;
  const std::vector<double> gates = p.x.gate.to_doubles();
  for (int64_t row = 0; row < positions.numel(); ++row) {
    beta.push_back(gates[static_cast<size_t>(2 * row)]);
    for (int64_t d = 0; d < decays; ++d)
      logs.push_back(static_cast<float>(log_decay(row % sizes.length, d)));
  }
  if (weighs) p.beta = Tensor::from(beta, positions, dtype);
  if (decays > 0)
    p.log_decay = Tensor::from(logs, {sizes.batch, sizes.heads, sizes.length, decays}, dtype);
  return p;
}

// The gates as one tensor of values, beta first.
inline Tensor gates_of(const Problem& p) {
  if (!p.beta.defined()) return p.log_decay;
  const int64_t decays = p.log_decay.defined() ? p.log_decay.size(3) : 0;
  const Shape& positions = p.beta.shape();
  const std::vector<double> beta = p.beta.to_doubles(),
                            logs = decays > 0 ? p.log_decay.to_doubles() : std::vector<double>();
  std::vector<double> all;
  for (size_t row = 0; row < beta.size(); ++row) {
    all.push_back(beta[row]);
    const auto from = logs.begin() + static_cast<int64_t>(row) * decays;
    all.insert(all.end(), from, from + decays);
  }
  return Tensor::from(all, {positions[0], positions[1], positions[2], decays + 1}, p.beta.dtype());
}

inline std::unique_ptr<Attention> attention(const std::string& name, const Settings& settings,
                                            const Sizes& sizes, DType dtype, int64_t segment = 0,
                                            int64_t chunk = 0) {
  AttentionOptions options = options_of(name, sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = settings;
  options.segment = segment;
  options.chunk = chunk;
  return make_attention(options);
}

inline Outcome run(const Attention& attention, conformance::Method method, const Problem& p) {
  AttentionInputs in{Var(p.x.q, true), Var(p.x.k, true), Var(p.x.v, true), Var()};
  if (const Tensor gates = gates_of(p); gates.defined()) in.gate = Var(gates, true);
  Outcome outcome = conformance::run(attention, method, in, p.x.dy, {});
  outcome.dparameters.clear();  // gates as values take none
  return outcome;
}

// One position after the other by `step`.
inline Tensor by_steps(const Attention& attention, const Problem& p) {
  const Shape& shape = p.x.v.shape();
  const auto state = attention.start(shape[0], p.x.v.dtype());
  const Tensor gates = gates_of(p), y(shape, p.x.v.dtype());
  for (int64_t n = 0; n < shape[2]; ++n) {
    const auto at = [n](const Tensor& x) {
      return x.defined() ? Var(conformance::at_position(x, n)) : Var();
    };
    const Tensor row = attention.step(*state, {at(p.x.q), at(p.x.k), at(p.x.v), at(gates)});
    for (int64_t pair = 0; pair < shape[0] * shape[1]; ++pair)
      ops::copy_into(row.reshape({shape[0] * shape[1], shape[3]}).select(pair),
                     y.reshape({shape[0] * shape[1], shape[2], shape[3]}).select(pair).select(n));
  }
  return y;
}

// What the loops compute, and known mistakes.
struct Formula {
  bool silu = true, unit = true, corrects = true;
  bool reads_before_decay = false;  // the correction
  bool decays_late = false;         // a position is decayed by the gate of the one before it
};

// S_t = Diag(a_t) S_{t-1}, S_t += k_t x_t^T, x_t = beta_t (v_t - S^T k_t) or beta_t v_t, y_t = S_t^T q_t
inline Tensor by_loops(const Formula& f, const Problem& p) {
  const Shape& keys = p.x.k.shape();
  const int64_t P = keys[0] * keys[1], N = keys[2], D = keys[3], M = p.x.v.size(3),
                W = p.log_decay.defined() ? p.log_decay.size(3) : 0;
  const auto features = [&](const Tensor& x) {
    std::vector<double> rows = x.to_doubles();
    for (double& value : rows) value = f.silu ? value / (1 + std::exp(-value)) : value;
    for (size_t row = 0; f.unit && row < rows.size(); row += static_cast<size_t>(D)) {
      double squares = 0;
      for (size_t d = row; d < row + static_cast<size_t>(D); ++d) squares += rows[d] * rows[d];
      for (size_t d = row; d < row + static_cast<size_t>(D); ++d)
        rows[d] = squares == 0 ? 0 : rows[d] / std::sqrt(squares);
    }
    return rows;
  };
  const std::vector<double> q = features(p.x.q), k = features(p.x.k), v = p.x.v.to_doubles(),
                            beta = p.beta.defined() ? p.beta.to_doubles() : std::vector<double>(),
                            logs = W > 0 ? p.log_decay.to_doubles() : std::vector<double>();
  const auto at = [](const std::vector<double>& x, int64_t i) { return x[static_cast<size_t>(i)]; };
  std::vector<double> y(v.size());
  for (int64_t pair = 0; pair < P; ++pair) {
    std::vector<double> S(static_cast<size_t>(D * M));
    for (int64_t t = pair * N; t < (pair + 1) * N; ++t) {
      const int64_t gate = f.decays_late ? t - 1 : t;
      std::vector<double> decayed = S;
      for (int64_t i = 0; i < D * M && W > 0 && gate >= pair * N; ++i)
        decayed[static_cast<size_t>(i)] *= std::exp(at(logs, gate * W + (W > 1 ? i / M : 0)));
      const std::vector<double>& read = f.reads_before_decay ? S : decayed;
      for (int64_t m = 0; m < M; ++m) {
        double held = 0;
        for (int64_t d = 0; f.corrects && d < D; ++d)
          held += at(read, d * M + m) * at(k, t * D + d);
        const double x = (beta.empty() ? 1 : at(beta, t)) * (at(v, t * M + m) - held);
        for (int64_t d = 0; d < D; ++d)
          decayed[static_cast<size_t>(d * M + m)] += at(k, t * D + d) * x;
      }
      S = decayed;
      for (int64_t m = 0; m < M; ++m) {
        double& out = y[static_cast<size_t>(t * M + m)];
        for (int64_t d = 0; d < D; ++d) out += at(S, d * M + m) * at(q, t * D + d);
        out /= std::sqrt(static_cast<double>(D));
      }
    }
  }
  return Tensor::from(y, p.x.v.shape());
}

// Decays of a mean of -0.1, a few of them nearly 0 or of -20.
inline double mixed_decay(int64_t position, int64_t channel) {
  const int64_t i = 7 * position + 3 * channel;
  if (i % 29 == 11) return -20;
  return i % 5 == 2 ? -1e-9 : -0.02 * static_cast<double>(i % 11);
}

// Outputs and gradients of all forms, at chunks of 1, 16 and 64 and a state that passes segments.
inline void expect_forms_agree(const std::string& name, const Settings& settings, const Formula& f,
                               int64_t decays, bool weighs) {
  for (const int64_t length : {1, 17, 64, 131}) {
    const Sizes sizes{2, 2, length, 5, 3};
    const Problem p = problem(sizes, DType::f64, decays, weighs, mixed_decay);
    const Tensor expected = by_loops(f, p);
    const auto plain = attention(name, settings, sizes, DType::f64);
    const Outcome exact = run(*plain, &Attention::quadratic, p);
    EXPECT_LE(relative_error(exact.y, expected), 1e-9) << length;
    EXPECT_LE(relative_error(by_steps(*plain, p), expected), 1e-9) << length;
    for (const auto& [segment, chunk] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 0}, {0, 1}, {0, 16}, {0, 64}, {40, 16}, {70, 64}}) {
      const std::string where = fmt::format("{} {} {} {}", name, length, segment, chunk);
      const Outcome found = run(*attention(name, settings, sizes, DType::f64, segment, chunk),
                                &Attention::forward, p);
      EXPECT_LE(relative_error(found.y, expected), 1e-9) << where;
      EXPECT_LE(conformance::gradient_error(found, exact), 1e-7) << where;
    }
  }
}

// Float is finite and near double where heads forget at once, never, or half of their channels.
inline void expect_finite_at_extreme_decays(const std::string& name, const Settings& settings,
                                            int64_t decays, bool weighs) {
  const Sizes sizes{1, 2, 300, 8, 6};
  const std::vector<std::function<double(int64_t, int64_t)>> all = {
      [](int64_t, int64_t) { return -20.0; }, [](int64_t, int64_t) { return -1e-9; },
      [](int64_t, int64_t channel) { return channel % 2 == 0 ? -20.0 : 0.0; },
      [](int64_t position, int64_t) { return position % 37 == 5 ? -1e4 : -5.0; }};
  for (size_t i = 0; i < all.size(); ++i) {
    const Problem p = problem(sizes, DType::f32, decays, weighs, all[i]);
    Problem wide = p;
    wide.x = conformance::in_dtype(p.x, DType::f64);
    if (weighs) wide.beta = conformance::in_dtype(p.beta, DType::f64);
    if (decays > 0) wide.log_decay = conformance::in_dtype(p.log_decay, DType::f64);
    const Outcome found =
                      run(*attention(name, settings, sizes, DType::f32), &Attention::forward, p),
                  expected =
                      run(*attention(name, settings, sizes, DType::f64), &Attention::forward, wide);
    EXPECT_LE(relative_error(found.y, expected.y), 1e-3) << name << " " << i;
    for (const Outcome* outcome : {&found, &expected})
      for (const auto& [gradient, value] : outcome->gradients())
        EXPECT_EQ(ops::count_nonfinite(value), 0) << name << " " << i << " " << gradient;
  }
}

// A state of 4,096 positions, 1,024 under the sanitizers.
inline void expect_long_steps(const std::string& name, const Settings& settings, int64_t decays,
                              bool weighs) {
  const Sizes sizes{1, 1, kSanitized ? 1024 : 4096, 8, 4};
  const Problem p = problem(sizes, DType::f64, decays, weighs, mixed_decay);
  const auto mechanism = attention(name, settings, sizes, DType::f64);
  EXPECT_LE(relative_error(by_steps(*mechanism, p), run(*mechanism, &Attention::forward, p).y),
            1e-9);
}

}  // namespace linea::decay_tests
