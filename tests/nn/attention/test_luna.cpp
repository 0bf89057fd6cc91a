// Trained queries: limits of both forms, long sequences by steps, the state, and packing with a sum over the
// whole sequence.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> luna(int64_t slots, const Sizes& sizes, DType dtype = DType::f64) {
  AttentionOptions options =
      options_of("luna", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings["slots"] = slots;
  return make_attention(options);
}

// Keys are 3 e_j, and query s is so near to e_s that it reads k_s and v_s alone.
TEST(Luna, OfAQueryForEachKeyIsSoftmax) {
  const Sizes sizes{2, 2, 6, 6, 5};
  Inputs x = draw(sizes, DType::f64);
  std::vector<double> keys(x.k.to_doubles().size()), slots(2 * 36);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i / 6 % 6 == i % 6 ? 3 : 0;
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = i / 6 % 6 == i % 6 ? 1000 : 0;
  x.k = Tensor::from(keys, x.k.shape());
  const auto attention = luna(6, sizes),
             softmax = make_attention(options_of("softmax", 2, 6, 5, DType::f64));
  write_values(slots, attention->parameters()[0].var.value());
  const Outcome found = run(*attention, &Attention::forward, x, {false, {}}),
                expected = run(*softmax, &Attention::forward, x, {false, {}});
  EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
  EXPECT_LE(relative_error(found.dq, expected.dq), 1e-12);
  EXPECT_LE(relative_error(found.dv, expected.dv), 1e-12);
}

// All slots alike: y_t = (1 / t) sum_{j <= t} log2(1 + 2^(p.k_j / sqrt(D))) v_j, whatever q is.
TEST(Luna, OfEqualSlotsIsAMeanWithoutQueries) {
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto attention = luna(4, sizes);
  const double p[] = {0.5, -1, 2, 0.25, 1};
  std::vector<double> slots;
  for (int i = 0; i < 2 * 4 * 5; ++i) slots.push_back(p[i % 5]);
  write_values(slots, attention->parameters()[0].var.value());
  const std::vector<double> k = x.k.to_doubles(), v = x.v.to_doubles();
  std::vector<double> expected;
  for (size_t bh = 0; bh < 4; ++bh) {
    double sums[7] = {};
    for (size_t t = 0; t < 150; ++t) {
      double score = 0;
      for (size_t d = 0; d < 5; ++d) score += p[d] * k[(bh * 150 + t) * 5 + d] / std::sqrt(5.0);
      for (size_t m = 0; m < 7; ++m) {
        sums[m] += std::log2(1 + std::exp2(score)) * v[(bh * 150 + t) * 7 + m];
        expected.push_back(sums[m] / static_cast<double>(t + 1));
      }
    }
  }
  const Outcome found = run(*attention, &Attention::forward, x, {});
  EXPECT_LE(relative_error(found.y, Tensor::from(expected, x.v.shape())), 1e-12);
  EXPECT_LE(largest(found.dq, anywhere), 1e-12 * largest(found.dv, anywhere));
}

TEST(Luna, StepsAreRowsOfLongSequences) {
  const Sizes sizes{1, 1, 16384, 8, 8};
  const Inputs x = draw(sizes, DType::f64);
  const auto attention = luna(8, sizes);
  const NoGrad no_grad;
  const Tensor y = attention->forward(inputs_for(*attention, x, false), {}).value();
  const auto state = attention->start(1, DType::f64);
  const size_t bytes = state->bytes();
  EXPECT_EQ(bytes, 8 * (8 + 8) * sizeof(double));
  const std::vector<double> expected = y.to_doubles();
  const auto position = [](const Tensor& of, int64_t n) {
    return Var(of.reshape({16384, 1, 1, 8}).select(n).reshape({1, 1, 1, 8}));
  };
  double error = 0;
  for (int64_t n = 0; n < 16384; ++n) {
    const std::vector<double> row =
        attention->step(*state, {position(x.q, n), position(x.k, n), position(x.v, n), Var()})
            .to_doubles();
    for (size_t m = 0; m < 8; ++m)
      error = std::max(error, std::abs(row[m] - expected[static_cast<size_t>(n) * 8 + m]));
  }
  EXPECT_LE(error, 1e-9 * largest(y, anywhere));
  EXPECT_EQ(state->bytes(), bytes);
}

// Slots packed by a softmax over the whole sequence, of which a mask then takes the later part: the sum
// under it is of the future, too.
template <bool leaks>
class PacksBySoftmax final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    if (!mask.causal || !leaks) return right_->forward(in, mask);
    const Var slots = right_->parameters()[0].var;
    const int64_t B = in.q.size(0), H = in.q.size(1), D = in.q.size(3);
    const double root = 1 / std::sqrt(static_cast<double>(D));
    std::vector<double> zeros(static_cast<size_t>(B * H * slots.size(1) * D));
    const Var of_batch =
        add_rows(Var(Tensor::from(zeros, {B, H, slots.size(1), D}, in.q.dtype())), slots);
    const Var packing = softmax(scale(matmul(of_batch, in.k, false, true), root));  // [B,H,m,N]
    const Var seen = mask_causal(matmul(in.q, in.k, false, true), 0.0);
    const Var weights = softmax(scale(matmul(seen, packing, false, true), root));
    return matmul(mask_causal(matmul(weights, packing), 0.0), in.v);
  }
};

TEST(Sabotage, SlotsPackedOverTheWholeSequence) {
  AttentionOptions options;
  options.name = "luna";
  options.settings = {{"slots", int64_t{8}}};
  for (const char* name : {"causality: bits", "causality: gradients", "step = outputs"})
    sabotage::expect_caught<PacksBySoftmax<true>, PacksBySoftmax<false>>(name, options);
}

}  // namespace
}  // namespace linea
