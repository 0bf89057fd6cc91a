// The embedding of pairs of tokens: nothing at first, of two tokens alone, the same in all forms.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/retrieval_model.h"
#include "tensor/backend.h"
#include "tensor/formulas.h"
#include "tests/expect_error.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

ModelConfig with_bigrams(bool bigrams = true) {
  ModelConfig config = small_transformer(2);
  config.dropout = 0;
  config.bigram_embedding = bigrams;
  return config;
}

Var bigram_table(const Transformer& model) {
  for (const Parameter& parameter : model.parameters())
    if (parameter.name == "bigram_embedding.weight") return parameter.var;
  return {};
}

void randomize_bigrams(const Transformer& model) {
  const Var table = bigram_table(model);
  table.value().write(
      random_tensor(table.shape(), 5, 0.5, 0, DType::f32).to_vector<float>().data());
}

// Of V tokens, with a table of its own.
BigramEmbedding some_embedding(int64_t V, const Var& weight) {
  BigramEmbedding embedding;
  embedding.vocab_size = V;
  embedding.weight = weight;
  return embedding;
}

TEST(BigramEmbedding, AFreshModelIsThatWithout) {
  const Tensor ids = some_ids(2, 48);
  const Transformer plain(with_bigrams(false)), model(with_bigrams());
  EXPECT_EQ(model.parameters().size(), plain.parameters().size() + 1);
  EXPECT_EQ(bigram_table(model).shape(), Shape({kTokens * kTokens, 16}));
  const std::vector<float> expected = plain.forward(ids, false).value().to_vector<float>();
  EXPECT_EQ(model.forward(ids, false).value().to_vector<float>(), expected);
  randomize_bigrams(model);
  EXPECT_NE(model.forward(ids, false).value().to_vector<float>(), expected);
}

// x[n] + E[s[n-1] V + s[n]]; above 256 tokens the row is that of a hash, within the table.
TEST(BigramEmbedding, AddsTheRowOfThePair) {
  for (const int64_t V : {2, 256, 257, 60000}) {
    EXPECT_EQ(bigram_rows(V), V <= 256 ? V * V : 65536);
    std::vector<float> rows(static_cast<size_t>(bigram_rows(V)));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
    const BigramEmbedding embedding =
        some_embedding(V, Var(Tensor::from(rows, {bigram_rows(V), 1})));
    std::vector<int32_t> ids = {0, 1, 1, 0, static_cast<int32_t>(V - 1)};
    for (int32_t n = 5; n < 40; ++n) ids.push_back(n * n * n % static_cast<int32_t>(V));
    const Var x(Tensor::full({2, 20, 1}, DType::f32, 1));
    const std::vector<float> sum =
        embedding.forward(x, Tensor::from(ids, {2, 20})).value().to_vector<float>();
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint64_t s = static_cast<uint64_t>(ids[i]),
                     before = i % 20 == 0 ? 0 : static_cast<uint64_t>(ids[i - 1]);
      const uint64_t row =
          V <= 256 ? before * static_cast<uint64_t>(V) + s : (before * 36313 ^ s * 27191) % 65536;
      EXPECT_EQ(sum[i], static_cast<float>(row) + 1) << V << " at " << i;
    }
  }
}

TEST(BigramEmbedding, ReadsTwoTokensAlone) {
  const BigramEmbedding embedding =
      some_embedding(kTokens, Var(random_tensor({kTokens * kTokens, 4}, 6)));
  const Var x(random_tensor({1, 9, 4}, 7));
  const std::vector<int32_t> one = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Tensor whole = embedding.forward(x, Tensor::from(one, {1, 9})).value().select(0);
  for (size_t changed = 0; changed < 9; ++changed) {
    std::vector<int32_t> other = one;
    other[changed] = 0;
    const Tensor y = embedding.forward(x, Tensor::from(other, {1, 9})).value().select(0);
    for (int64_t n = 0; n < 9; ++n) {
      const bool reads =
          n == static_cast<int64_t>(changed) || n == static_cast<int64_t>(changed) + 1;
      EXPECT_EQ(y.select(n).to_doubles() != whole.select(n).to_doubles(), reads) << n;
    }
  }
}

TEST(BigramEmbedding, Gradient) {
  for (const int64_t V : {3, 300}) {
    const std::vector<int32_t> ids = {2, 0, 1, 2, 2, 2, 1, 0, 1, 2};
    const GradcheckResult result = gradcheck(
        [&](const std::vector<Var>& inputs) {
          // of the table of a hash, the rows that are read
          Var table = inputs[1];
          if (V > 256) table = matmul(Var(Tensor::full({bigram_rows(V), 1}, DType::f64, 1)), table);
          return some_embedding(V, table).forward(inputs[0], Tensor::from(ids, {2, 5}));
        },
        {random_tensor({2, 5, 3}, 3), random_tensor({V > 256 ? 1 : V * V, 3}, 4)});
    EXPECT_LE(result.error, 1e-7) << V << ", input " << result.worst_input;
  }
}

TEST(BigramEmbedding, LaterTokensDoNotChangeEarlierOutputs) {
  const Transformer model(with_bigrams());
  randomize_bigrams(model);
  std::vector<int32_t> ids = some_ids(1, 48).to_vector<int32_t>();
  const auto before = model.forward(Tensor::from(ids, {1, 48}), false).value().select(0);
  for (size_t n = 30; n < 48; ++n) ids[n] = (ids[n] + 1) % static_cast<int32_t>(kTokens);
  const auto after = model.forward(Tensor::from(ids, {1, 48}), false).value().select(0);
  for (int64_t n = 0; n < 48; ++n)
    EXPECT_EQ(after.select(n).to_vector<float>() == before.select(n).to_vector<float>(), n < 30)
        << n;
}

TEST(BigramEmbedding, SamplingStepsAreTheRowsOfTheWhole) {
  for (const std::string attention : {"linear", "softmax"})
    for (const std::string convolution : {"none", "1d"})
      for (const bool reversible : {false, true}) {
        ModelConfig config = with_bigrams();
        config.attentions[0].name = attention;
        config.embedding_convolution = convolution;
        config.reversible = reversible;
        const Transformer model(config);
        randomize_bigrams(model);
        SCOPED_TRACE(testing::Message() << attention << convolution << reversible);
        expect_steps_are_rows(model, some_ids(2, 48));
      }
}

TEST(BigramEmbedding, GradientsAreTheSameAtAnyNumberOfThreads) {
  if (std::string(cpu_isa()) == "128-bit")
    GTEST_SKIP() << "the base build computes products by BLAS";
  const int before = context().threads;
  std::vector<std::vector<double>> found;
  for (const int threads : {1, 3}) {
    set_threads(threads);
    const Transformer model(with_bigrams());
    backward(cross_entropy(model.forward(some_ids(16, 48), true), some_ids(16, 48, 5)));
    found.push_back(bigram_table(model).grad().to_doubles());
    set_threads(before);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NE(found[0], std::vector<double>(found[0].size(), 0));
}

TEST(BigramEmbedding, TheTokenBeforeCountsAsState) {
  EXPECT_EQ(Transformer(with_bigrams()).start(5).bytes(),
            Transformer(with_bigrams(false)).start(5).bytes() + 5 * sizeof(int32_t));
}

TEST(BigramEmbedding, IsNotForPairs) {
  ModelConfig pairs = with_bigrams();
  pairs.second_vocab_size = 3;
  pairs.layers = pairs.heads = 1;
  expect_error(ErrorKind::usage, {"`bigram_embedding`"}, [&] { RetrievalModel{pairs}; });
}

}  // namespace
}  // namespace linea
