// Compressed blocks: limits, weights, and a known leak.
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> mca(int64_t ratio, const Sizes& sizes, DType dtype = DType::f64) {
  AttentionOptions options =
      options_of("mca", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = {{"ratio", ratio}};
  options.length = sizes.length;
  return make_attention(options);
}

// Blocks of one key, and blocks that no sequence fills.
TEST(Mca, WithoutCompressionIsSoftmax) {
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  for (const bool causal : {true, false})
    for (const int64_t ratio : {1, 151}) {
      const Outcome expected = run(*softmax, &Attention::forward, x, {causal, {}}),
                    found = run(*mca(ratio, sizes), &Attention::forward, x, {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-12) << ratio;
      EXPECT_LE(relative_error(found.dq, expected.dq), 1e-12) << ratio;
      EXPECT_LE(relative_error(found.dk, expected.dk), 1e-12) << ratio;
      EXPECT_LE(relative_error(found.dv, expected.dv), 1e-12) << ratio;
    }
}

// k' = sum_t W_t k_t with the matrices as they are, not transposed.
TEST(Mca, MultipliesKeysByItsMatrices) {
  const Sizes sizes{1, 1, 2, 2, 2};
  const auto attention = mca(2, sizes);
  const std::vector<double> U = {1, 2, 3, 4, 5, 6, 7, 8};  // U_0 = [1 2; 3 4], U_1 = [5 6; 7 8]
  ops::copy_into(Tensor::from(U, {1, 2, 2, 2}), attention->parameters()[1].var.value());
  const Var q(Tensor::zeros({1, 1, 2, 2}, DType::f64)),
      v(Tensor::from(std::vector<double>{1, 10, 100, 1000}, {1, 1, 2, 2}));
  const std::vector<double> y = attention->forward({q, q, v, Var()}, {}).value().to_doubles();
  EXPECT_EQ(y, (std::vector<double>{1, 10, 1 + 20 + 500 + 6000, 3 + 40 + 700 + 8000}));
}

// What a mask by the number of compressed keys does: a row reads the whole block that it is in.
class ReadsItsWholeBlock final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t N = in.q.size(2), r = 3;
    const Var k = pool_spans(in.k, r, r), v = pool_spans(in.v, r, r);
    return naive::softmax_attention(
        matmul(in.q, join_rows({k, in.k}), false, true), join_rows({v, in.v}), {false, mask.valid},
        [=](int64_t, int64_t i, int64_t j) { return j < N / r ? j <= i / r : j - N / r == i; });
  }
};

TEST(Sabotage, CompressedBlocksOfTheFuture) {
  AttentionOptions options;
  options.name = "mca";
  sabotage::expect_caught<ReadsItsWholeBlock>("causality: bits", options);
}

}  // namespace
}  // namespace linea
