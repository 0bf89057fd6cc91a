// Caught: mistakes in decays of the state that are known from other implementations.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/update_rule.h"
#include "nn/attention.h"
#include "tests/nn/verify/saboteur.h"

namespace linea::sabotage {
namespace {

// Y = (D o Q K^T) B V of ssd, with D some function of the sums of log decays.
class Sums : public Saboteur {
 public:
  using Saboteur::Saboteur;

 protected:
  struct Parts {
    Var scores, X, log_decay;
    AttentionMask mask;
  };
  // Those of ssd, whose gates are one logit.
  Parts parts(const AttentionInputs& in, const AttentionMask& mask) const {
    const auto silu = [](const Var& x) { return pointwise(Pointwise::silu, x); };
    const double root = std::sqrt(static_cast<double>(in.q.size(-1)));
    const Var u = reshape(in.gate, {in.q.size(0), in.q.size(1), in.q.size(2)}),
              weight = pointwise(Pointwise::softplus, u);
    return {scale(matmul(silu(in.q), silu(in.k), false, true), 1 / root),
            multiply(naive::as_rows(weight, in.v.size(3)), in.v),
            log_decays(u, right_->parameters()[0].var, 1, false), mask};
  }
};

// sum_{t <= i} l_t in row i
Var running_sums(const Var& log_decay, double shift) {
  const int64_t N = log_decay.size(2);
  std::vector<double> lower;
  for (int64_t i = 0; i < N * N; ++i)
    lower.push_back(static_cast<double>(i % N) + shift <= static_cast<double>(i / N));
  const Tensor triangle = Tensor::from(lower, {N, N}, log_decay.dtype());
  return reshape(matmul(reshape(log_decay, {log_decay.size(0), log_decay.size(1), 1, N}),
                        Var(triangle), false, true),
                 log_decay.shape());
}

// L_i - L_j of all pairs, future ones too.
Var differences(const Var& L) {
  const int64_t N = L.size(2);
  return add(naive::as_rows(L, N), scale(naive::as_columns(L, N), -1));
}

class RightSums final : public Sums {
 public:
  using Sums::Sums;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Parts p = parts(in, mask);
    const Var visible(naive::log_mask(p.scores.shape(), p.scores.dtype(), mask)),
        D = exp(add(visible, naive::decays_between(p.log_decay)));
    return matmul(multiply(p.scores, D), p.X);
  }
};

// The exponential of future pairs is infinite before they are selected away, and infinity times 0 is
// not a number.
class ExponentialBeforeSelection final : public Sums {
 public:
  using Sums::Sums;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Parts p = parts(in, mask);
    const Var all = exp(differences(running_sums(p.log_decay, 0)));
    std::vector<double> seen;
    const int64_t N = p.scores.size(2);
    for (int64_t i = 0; i < p.scores.value().numel(); ++i) seen.push_back(i % N <= i / N % N);
    const Var lower(Tensor::from(seen, p.scores.shape(), p.scores.dtype()));
    return matmul(multiply(multiply(p.scores, lower), all), p.X);
  }
};

// exp(L_i) exp(-L_j) in two factors: the second overflows.
class ExponentialOfOneSum final : public Sums {
 public:
  using Sums::Sums;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Parts p = parts(in, mask);
    const int64_t N = p.scores.size(2);
    const Var L = running_sums(p.log_decay, 0), lower = mask_causal(p.scores, 0);
    return matmul(multiply(multiply(lower, naive::as_rows(exp(L), N)),
                           naive::as_columns(exp(scale(L, -1)), N)),
                  p.X);
  }
};

// A sum without its own position: what is written decays by its own gate.
class ExclusiveSum final : public Sums {
 public:
  using Sums::Sums;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Parts p = parts(in, mask);
    const Var visible(naive::log_mask(p.scores.shape(), p.scores.dtype(), mask)),
        L = differences(running_sums(p.log_decay, 1));
    return matmul(multiply(p.scores, exp(add(visible, L))), p.X);
  }
};

// X = B (V - (the strict lower part of D' o K K^T) X) of gdn: right where D' = D; D'_ij without the
// decay of i corrects by what the state held before it.
template <bool before_decay>
class Corrections final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const auto unit = [](const Var& x) { return unit_rows(pointwise(Pointwise::silu, x), 1); };
    const Shape positions{in.q.size(0), in.q.size(1), in.q.size(2)};
    const Var q = unit(in.q), k = unit(in.k), scores = matmul(q, k, false, true),
              beta = pointwise(Pointwise::sigmoid, reshape(columns(in.gate, 0, 1), positions)),
              log_decay = log_decays(reshape(columns(in.gate, 1, 1), positions),
                                     right_->parameters()[0].var, 1, false),
              between = add(Var(naive::log_mask(scores.shape(), scores.dtype(), mask)),
                            naive::decays_between(log_decay));
    const int64_t N = positions[2];
    const Var read = before_decay ? add(between, scale(naive::as_rows(log_decay, N), -1)) : between;
    const Var strengths =
                  multiply(multiply(naive::as_rows(beta, N), matmul(k, k, false, true)), exp(read)),
              X = solve_unit_lower(strengths, multiply(naive::as_rows(beta, in.v.size(3)), in.v));
    return scale(matmul(multiply(scores, exp(between)), X),
                 1 / std::sqrt(static_cast<double>(in.q.size(-1))));
  }
};

// The gradient of kda's keys where they read has the sign of where they write, if factor is -1.
template <int factor>
class ReadersOfOtherSign final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const auto unit = [](const Var& x) { return unit_rows(pointwise(Pointwise::silu, x), 1); };
    const int64_t N = in.q.size(2), D = in.q.size(3);
    const Var q = unit(in.q), k = unit(in.k),
              readers = Var::from_op("sign", k.value(), {k},
                                     [](const Tensor&dy) { return ops::scale(dy, factor); });
    const Var beta = pointwise(Pointwise::sigmoid,
                               reshape(columns(in.gate, 0, 1), {in.q.size(0), in.q.size(1), N})),
              log_decay = log_decays(columns(in.gate, 1, D), right_->parameters()[0].var, 1, false),
              products = naive::channel_products(readers, k, log_decay),
              visible = exp(Var(naive::log_mask(products.shape(), products.dtype(), mask)));
    const Var X = solve_unit_lower(multiply(naive::as_rows(beta, N), multiply(products, visible)),
                                   multiply(naive::as_rows(beta, in.v.size(3)), in.v));
    return scale(matmul(multiply(naive::channel_products(q, k, log_decay), visible), X),
                 1 / std::sqrt(static_cast<double>(D)));
  }
};

AttentionOptions named(const std::string& name) {
  AttentionOptions options;
  options.name = name;
  return options;
}

TEST(Sabotage, ExponentialsOfFutureDecays) {
  expect_caught<ExponentialBeforeSelection, RightSums>("outputs, float", named("ssd"));
  expect_caught<ExponentialOfOneSum, RightSums>("outputs, float", named("ssd"));
}

TEST(Sabotage, SumsOfDecaysShiftedByOne) {
  expect_caught<ExclusiveSum, RightSums>("outputs = quadratic", named("ssd"));
  expect_caught<ExclusiveSum, RightSums>("step = outputs", named("ssd"));
}

TEST(Sabotage, AnotherSignOfKeysThatRead) {
  for (const char* name : {"gradients = quadratic", "gradients = differences"})
    expect_caught<ReadersOfOtherSign<-1>, ReadersOfOtherSign<1>>(name, named("kda"));
}

TEST(Sabotage, CorrectionsReadBeforeTheDecay) {
  expect_caught<Corrections<true>, Corrections<false>>("outputs = quadratic", named("gdn"));
  expect_caught<Corrections<true>, Corrections<false>>("step = outputs", named("gdn"));
}

}  // namespace
}  // namespace linea::sabotage
