// Landmarks: the limits, sequences that share a batch, the convolution, and a norm over the whole batch.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/slots.h"
#include "autograd/softmax_attention.h"
#include "nn/verify/conformance_tools.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/same_bits.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> nystrom(int64_t slots, const Sizes& sizes, int64_t conv = 0,
                                   DType dtype = DType::f64) {
  AttentionOptions options =
      options_of("nystrom", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = {{"slots", slots}, {"conv", conv}};
  return make_attention(options);
}

std::unique_ptr<Attention> exact_attention(const Sizes& sizes, DType dtype = DType::f64) {
  return make_attention(
      options_of("softmax", sizes.heads, sizes.key_size, sizes.value_size, dtype));
}

TEST(Nystrom, OfAsManyLandmarksAsPositionsIsSoftmax) {
  const Sizes sizes{2, 2, 40, 5, 7};
  const Inputs x = draw(sizes, DType::f32);
  for (const int64_t slots : {40, 41, 1000})
    expect_same_bits(
        run(*nystrom(slots, sizes, 0, DType::f32), &Attention::forward, x, not_causal()),
        run(*exact_attention(sizes, DType::f32), &Attention::forward, x, not_causal()));
}

// Each row of q, k and v twice in turn: segments of two equal rows, so that the landmarks are all rows that
// there are, F = A and B = A; keys of different directions, so that A is well conditioned.
TEST(Nystrom, OfRowsThatAreLandmarksIsNearSoftmax) {
  const Sizes sizes{1, 2, 32, 16, 7};
  Inputs x = draw(sizes, DType::f64);
  const auto twice = [](const Tensor& t) {
    return gather_rows(t, t.shape(), [](int64_t row) { return row / 2 * 2; });
  };
  std::vector<double> keys(x.k.to_doubles().size());
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] = i / 32 % 16 == i % 16 ? 10 : 0.1 * x.k.to_doubles()[i % 16];
  x.k = x.q = twice(Tensor::from(keys, x.k.shape()));
  x.v = twice(x.v);
  const Tensor found = run(*nystrom(16, sizes), &Attention::forward, x, not_causal()).y,
               expected = run(*exact_attention(sizes), &Attention::forward, x, not_causal()).y;
  EXPECT_LE(relative_error(found, expected), 1e-3);
  EXPECT_GT(
      relative_error(run(*nystrom(8, sizes), &Attention::forward, x, not_causal()).y, expected),
      1e-2);
}

// The start of the iteration is scaled by each head's own norm.
TEST(Nystrom, ASequenceAloneIsThatOfABatch) {
  const Sizes sizes{2, 2, 60, 5, 7};
  Inputs x = draw(sizes, DType::f64);
  const auto second = [](int64_t b, int64_t) { return b == 1; };
  x.q = blend(x.q, ops::scale(x.q, 1000), second);
  x.k = blend(x.k, ops::scale(x.k, 1000), second);
  const auto attention = nystrom(6, sizes);
  const auto first = [](const Tensor& t) { return pick(t, {0}, {0, 1}, 60); };
  const Outcome both = run(*attention, &Attention::forward, x, not_causal()),
                alone = run(*attention, &Attention::forward, x.map(first), not_causal());
  EXPECT_LE(relative_error(first(both.y), alone.y), 1e-12);
  EXPECT_LE(gradient_error(both.map(first), alone), 1e-12);
}

// Sequences with fewer valid positions than landmarks, and with more.
TEST(Nystrom, SequencesOfABatchHaveTheirOwnLengths) {
  const Sizes sizes{3, 2, 50, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const Tensor valid = Tensor::from(std::vector<int32_t>{50, 8, 9}, {3});
  const auto attention = nystrom(8, sizes, 3);
  const Tensor y = run(*attention, &Attention::forward, x, {false, valid}).y;
  for (const size_t b : {0, 1, 2}) {
    const int64_t length = valid.to_vector<int32_t>()[b];
    const auto own = [&](const Tensor& t) { return pick(t, {b}, {0, 1}, length); };
    EXPECT_LE(
        relative_error(own(y), run(*attention, &Attention::forward, x.map(own), not_causal()).y),
        1e-12)
        << b;
  }
}

TEST(Nystrom, AddsAConvolutionOfTheValues) {
  const Sizes sizes{1, 2, 40, 5, 3};
  const Inputs x = draw(sizes, DType::f64);
  const auto with = nystrom(6, sizes, 5), without = nystrom(6, sizes);
  const std::vector<double> w = with->parameters()[0].var.value().to_doubles(),
                            v = x.v.to_doubles();
  std::vector<double> sums(v.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto n = static_cast<int64_t>(i / 3 % 40);
    for (int64_t t = 0; t < 5; ++t)
      if (n + t >= 2 && n + t - 2 < 40)
        sums[i] += w[i / 120 * 5 + static_cast<size_t>(t)] *
                   v[static_cast<size_t>(static_cast<int64_t>(i) + (t - 2) * 3)];
  }
  EXPECT_LE(relative_error(run(*with, &Attention::forward, x, not_causal()).y,
                           ops::add(run(*without, &Attention::forward, x, not_causal()).y,
                                    Tensor::from(sums, x.v.shape()))),
            1e-12);
  expect_error(ErrorKind::usage, {"`conv` is 4", "odd"}, [&] { nystrom(6, sizes, 4); });
}

TEST(Nystrom, HasNoCausalForm) {
  const Sizes sizes{1, 1, 9, 4, 4};
  const auto attention = nystrom(3, sizes);
  expect_error(ErrorKind::usage, {"nystrom has no causal form", "landmarks average future rows"},
               [&] {
                 run(*attention, &Attention::forward, draw(sizes, DType::f64), {true, {}});
               });
  EXPECT_THROW(attention->start(1, DType::f64), Error);
}

// The published default: the norms of all heads and sequences are one, the largest. `leaks` false: each its
// own.
template <bool leaks>
class NormOfTheBatch final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    if (in.q.size(2) <= int64_t{kSegments}) return right_->forward(in, mask);
    const double root = 1 / std::sqrt(static_cast<double>(in.q.size(3)));
    const Var q = segment_means(in.q, kSegments, {}), k = segment_means(in.k, kSegments, {}),
              a = softmax(scale(matmul(q, k, false, true), root));
    Var z = start(a);
    const auto minus = [&](double c, const Var& x) {
      std::vector<double> diagonal(static_cast<size_t>(x.value().numel()));
      for (size_t i = 0; i < diagonal.size(); ++i)
        diagonal[i] = i / kSegments % kSegments == i % kSegments ? c : 0;
      return add(Var(Tensor::from(diagonal, x.shape(), x.dtype())), scale(x, -1));
    };
    for (int i = 0; i < 6; ++i) {
      const Var az = matmul(a, z);
      z = scale(matmul(z, minus(13, matmul(az, minus(15, matmul(az, minus(7, az)))))), 0.25);
    }
    const Var read = softmax_attention({q, in.k, in.v, Var()}, not_causal());
    return softmax_attention({in.q, k, matmul(z, read), Var()}, not_causal());
  }

 private:
  static constexpr size_t kSegments = 5;
  static Var start(const Var& a) {
    if (!leaks) return transpose_over_norm(a);
    const std::vector<double> values = a.value().to_doubles();
    double norm = 0;
    std::vector<double> norms;
    for (size_t first = 0; first < values.size(); first += kSegments * kSegments) {
      double own = 0;
      for (size_t column = first; column < first + kSegments; ++column) {
        double sum = 0;
        for (size_t row = 0; row < kSegments; ++row) sum += values[column + row * kSegments];
        own = std::max(own, sum);
      }
      norms.push_back(own);
      norm = std::max(norm, own);
    }
    std::vector<double> ratios;
    for (const double own : norms) ratios.insert(ratios.end(), kSegments * kSegments, own / norm);
    return multiply(transpose_over_norm(a), Var(Tensor::from(ratios, a.shape(), a.dtype())));
  }
};

TEST(Sabotage, ANormOverTheWholeBatch) {
  AttentionOptions options;
  options.name = "nystrom";
  options.settings = {{"slots", int64_t{5}}};
  sabotage::expect_caught<NormOfTheBatch<true>, NormOfTheBatch<false>>("other sequences", options);
}

}  // namespace
}  // namespace linea
