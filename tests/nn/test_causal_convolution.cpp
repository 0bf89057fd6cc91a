// Convolutions of a Transformer: the identity at first, the same in all forms, trained.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/retrieval_model.h"
#include "tests/expect_error.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

// Of images of 4 x 4 pixels of 3 channels.
ModelConfig convolved(const std::string& embedding, const std::string& layers) {
  ModelConfig config = small_transformer(2);
  config.dropout = 0;
  config.image_width = 4;
  config.image_channels = 3;
  config.embedding_convolution = embedding;
  config.layer_convolution = layers;
  return config;
}

void randomize_convolutions(Transformer& model) {
  for (const Parameter& parameter : model.parameters())
    if (parameter.name.find("convolution") != std::string::npos) {
      const Tensor random =
          random_tensor(parameter.var.shape(), parameter.name[7], 0.5, 0, DType::f32);
      parameter.var.value().write(random.to_vector<float>().data());
    }
}

TEST(CausalConvolution, AFreshModelIsThatWithout) {
  const Tensor ids = some_ids(2, 48);
  const auto plain = Transformer(convolved("none", "none")).forward(ids, false).value();
  for (const std::string kind : {"1d", "2d"}) {
    Transformer model(convolved(kind, kind));
    EXPECT_EQ(model.forward(ids, false).value().to_vector<float>(), plain.to_vector<float>());
    randomize_convolutions(model);
    EXPECT_NE(model.forward(ids, false).value().to_vector<float>(), plain.to_vector<float>());
  }
}

TEST(CausalConvolution, SamplingStepsAreTheRowsOfTheWhole) {
  for (const std::string attention : {"linear", "softmax"})
    for (const bool reversible : {false, true})
      for (const std::string kind : {"1d", "2d"}) {
        ModelConfig config = convolved(kind, kind);
        config.attention.name = attention;
        config.reversible = reversible;
        Transformer model(config);
        randomize_convolutions(model);
        SCOPED_TRACE(testing::Message() << attention << kind << reversible);
        expect_steps_are_rows(model, some_ids(2, 48));
      }
}

TEST(CausalConvolution, BlocksThatRunTwiceGiveTheSameGradients) {
  const Tensor ids = some_ids(2, 48);
  std::vector<std::vector<double>> plain;
  for (const bool recompute : {false, true}) {
    ModelConfig config = convolved("2d", "2d");
    config.recompute = recompute;
    Transformer model(config);
    randomize_convolutions(model);
    backward(cross_entropy(model.forward(ids, true), ids));
    std::vector<std::vector<double>> gradients;
    for (const Parameter& parameter : model.parameters())
      gradients.push_back(parameter.var.grad().to_doubles());
    if (!recompute) plain = gradients;
    EXPECT_EQ(plain, gradients);
  }
  Transformer model(convolved("2d", "1d"));
  backward(cross_entropy(model.forward(ids, true), ids));
  for (const Parameter& parameter : model.parameters())
    if (parameter.name.find("convolution") != std::string::npos) {
      int64_t zeros = 0;
      for (const double g : parameter.var.grad().to_doubles()) zeros += g == 0;
      EXPECT_EQ(zeros, 0) << parameter.name;
    }
}

TEST(CausalConvolution, ItsRowsCountAsState) {
  const size_t plain = Transformer(convolved("none", "none")).start(3).bytes();
  const size_t rows = 14 + 1;  // the largest offset is 4 * 3 + 3 - 1
  EXPECT_EQ(Transformer(convolved("2d", "none")).start(3).bytes() - plain, 3 * rows * 16 * 4);
  EXPECT_EQ(Transformer(convolved("none", "1d")).start(3).bytes() - plain,
            2 * 2 * size_t{4} * 3 * 16 * 4);
}

TEST(CausalConvolution, NeedsImagesForTwoDimensions) {
  for (const int64_t width : {0, 1}) {
    ModelConfig config = convolved("none", "2d");
    config.image_width = width;
    expect_error(ErrorKind::usage, {"`layer_convolution` 2d", "1d", "images"},
                 [&] { Transformer{config}; });
  }
  expect_error(ErrorKind::usage, {"`embedding_convolution` is '3d'", "none, 1d, 2d"},
               [] { Transformer{convolved("3d", "none")}; });
  ModelConfig pairs = convolved("1d", "none");
  pairs.second_vocab_size = 3;
  pairs.layers = pairs.heads = 1;
  expect_error(ErrorKind::usage, {"`embedding_convolution`"}, [&] { RetrievalModel{pairs}; });
}

}  // namespace
}  // namespace linea
