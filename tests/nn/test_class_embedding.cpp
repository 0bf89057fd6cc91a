// The class of an image at every position: nothing at first, the same in all forms, trained.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/backend.h"
#include "tests/expect_error.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

constexpr int64_t kClasses = 3, kFirst = kTokens - kClasses;

ModelConfig with_classes(const std::string& classes = "every") {
  ModelConfig config = small_transformer(2);
  config.dropout = 0;
  config.vocab_size = kFirst;
  config.classes = kClasses;
  config.class_embedding = classes;
  return config;
}

// Sequences that start with classes 2, 0, 2, 0 ..., or with a token that is none.
Tensor ids_of_classes(int64_t B, int64_t N, bool with_class = true) {
  std::vector<int32_t> ids = some_ids(B, N).to_vector<int32_t>();
  for (int32_t& id : ids) id %= kFirst;
  for (int64_t b = 0; with_class && b < B; ++b)
    ids[static_cast<size_t>(b * N)] = static_cast<int32_t>(kFirst + (b % 2 == 0 ? 2 : 0));
  return Tensor::from(ids, {B, N});
}

Var class_table(const Transformer& model) {
  for (const Parameter& parameter : model.parameters())
    if (parameter.name == "class_embedding.weight") return parameter.var;
  return {};
}

void randomize_classes(const Transformer& model) {
  const Var table = class_table(model);
  table.value().write(
      random_tensor(table.shape(), 5, 0.5, 0, DType::f32).to_vector<float>().data());
}

TEST(ClassEmbedding, AFreshModelIsThatWithout) {
  const Tensor ids = ids_of_classes(2, 48);
  const Transformer plain(with_classes("first")), model(with_classes());
  EXPECT_EQ(model.parameters().size(), plain.parameters().size() + 1);
  EXPECT_EQ(class_table(model).shape(), Shape({kClasses + 1, 16}));
  EXPECT_FALSE(class_table(plain).defined());
  const std::vector<float> expected = plain.forward(ids, false).value().to_vector<float>();
  EXPECT_EQ(model.forward(ids, false).value().to_vector<float>(), expected);
  randomize_classes(model);
  EXPECT_NE(model.forward(ids, false).value().to_vector<float>(), expected);
}

// x[n] + E[class] with one token of another class: every position changes by the same row.
TEST(ClassEmbedding, AddsTheRowOfTheClassAtEveryPosition) {
  const Transformer model(with_classes());
  randomize_classes(model);
  ClassEmbedding embedding;
  embedding.first = kFirst;
  embedding.weight = class_table(model);
  const std::vector<float> rows = embedding.weight.value().to_vector<float>();
  for (const bool with_class : {true, false}) {
    const Tensor ids = ids_of_classes(3, 5, with_class);
    const Var x(Tensor::zeros({3, 5, 16}, DType::f32));
    const std::vector<float> sum = embedding.forward(x, ids).value().to_vector<float>();
    for (size_t i = 0; i < sum.size(); ++i) {
      const size_t row = !with_class ? kClasses : i / (5 * 16) % 2 == 0 ? 2 : 0;
      EXPECT_EQ(sum[i], rows[row * 16 + i % 16]) << i;
    }
  }
}

TEST(ClassEmbedding, Gradient) {
  const Tensor ids = ids_of_classes(4, 7);
  const GradcheckResult result = gradcheck(
      [&](const std::vector<Var>& inputs) {
        ClassEmbedding embedding;
        embedding.first = kFirst;
        embedding.weight = inputs[1];
        return embedding.forward(inputs[0], ids);
      },
      {random_tensor({4, 7, 5}, 3), random_tensor({kClasses + 1, 5}, 4)});
  EXPECT_LE(result.error, 1e-7) << "input " << result.worst_input;
}

TEST(ClassEmbedding, SamplingStepsAreTheRowsOfTheWhole) {
  for (const std::string attention : {"linear", "softmax"})
    for (const std::string convolution : {"none", "1d"})
      for (const bool reversible : {false, true}) {
        ModelConfig config = with_classes();
        config.attentions[0].name = attention;
        config.layer_convolution = convolution;
        config.reversible = reversible;
        const Transformer model(config);
        randomize_classes(model);
        SCOPED_TRACE(testing::Message() << attention << convolution << reversible);
        expect_steps_are_rows(model, ids_of_classes(3, 48));
      }
}

TEST(ClassEmbedding, GradientsAreThoseOfItsRowsAtAnyNumberOfThreads) {
  if (std::string(cpu_isa()) == "128-bit")
    GTEST_SKIP() << "the base build computes products by BLAS";
  const int before = context().threads;
  std::vector<std::vector<double>> found;
  for (const int threads : {1, 3}) {
    set_threads(threads);
    const Transformer model(with_classes());
    const Tensor ids = ids_of_classes(16, 48);
    backward(cross_entropy(model.forward(ids, true), ids_of_classes(16, 48, false)));
    found.push_back(class_table(model).grad().to_doubles());
    set_threads(before);
  }
  EXPECT_EQ(found[0], found[1]);
  for (size_t i = 0; i < found[0].size(); ++i)
    EXPECT_EQ(found[0][i] != 0, i / 16 == 0 || i / 16 == 2) << i;
}

TEST(ClassEmbedding, ItsClassesCountAsState) {
  EXPECT_EQ(Transformer(with_classes()).start(5).bytes(),
            Transformer(with_classes("first")).start(5).bytes() + 5 * sizeof(int32_t));
}

TEST(ClassEmbedding, NeedsClasses) {
  ModelConfig config = with_classes();
  config.classes = 0;
  expect_error(ErrorKind::usage, {"`class_embedding` every", "first", "`class_token`"},
               [&] { Transformer{config}; });
  expect_error(ErrorKind::usage, {"`class_embedding` is 'all'", "first, every"},
               [] { Transformer{with_classes("all")}; });
}

}  // namespace
}  // namespace linea
