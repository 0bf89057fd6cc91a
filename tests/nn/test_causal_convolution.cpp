// Convolutions of a Transformer: the identity at first, the same in all forms, trained.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/retrieval_model.h"
#include "tests/expect_error.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

// The positions that each position of an image reads, in the order of the weights; -1: none. The
// image is laid out pixel by pixel: position 0 holds the start or the class, and each later one a
// channel of a pixel; a position predicts the next.
std::vector<std::vector<int64_t>> windows_of_pixels(int64_t height, int64_t width,
                                                    int64_t channels) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> position_of;
  int64_t last = 0;
  for (int64_t row = 0; row < height; ++row)
    for (int64_t column = 0; column < width; ++column)
      for (int64_t channel = 0; channel < channels; ++channel)
        position_of[{row, column, channel}] = ++last;
  const auto find = [&](int64_t row, int64_t column, int64_t channel) {
    const auto found = position_of.find({row, column, channel});
    return found == position_of.end() ? -1 : found->second;
  };
  std::vector<std::vector<int64_t>> windows(static_cast<size_t>(last));
  for (const auto& [pixel, position] : position_of) {
    const auto [row, column, channel] = pixel;
    const int64_t n = position - 1;  // the position that predicts it
    windows[static_cast<size_t>(n)] = {n,
                                       n >= 1 ? n - 1 : -1,
                                       n >= 2 ? n - 2 : -1,
                                       find(row - 1, column + 1, channel),
                                       find(row - 1, column, channel),
                                       find(row - 1, column - 1, channel)};
  }
  return windows;
}

struct ImageSize {
  int64_t height, width, channels;
};

// y_n = sum_t w_t x_m for the window m of n; dx_m += w_t dy_n; dw_t += x_m dy_n; one column.
void expect_windows_of_pixels(const ImageSize& size) {
  SCOPED_TRACE(testing::Message() << size.height << " x " << size.width << " x " << size.channels);
  const auto windows = windows_of_pixels(size.height, size.width, size.channels);
  const auto N = static_cast<int64_t>(windows.size());
  Parameters parameters;
  ParameterInit init(parameters, 1);
  ModelConfig config;
  config.image_width = size.width;
  config.image_channels = size.channels;
  config.layer_convolution = "2d";
  config.dim = 1;
  CausalConvolution convolution(init, "windows", config);
  convolution.weight = Var(random_tensor({6, 1}, 1, 1, 0, DType::f32), true);
  const Var x(random_tensor({1, N, 1}, 2, 1, 0, DType::f32), true);
  const Tensor dy = random_tensor({1, N, 1}, 3, 1, 0, DType::f32);
  const Var y = convolution.forward(x);
  backward(y, dy);
  const std::vector<double> xs = x.value().to_doubles(), dys = dy.to_doubles(),
                            ws = convolution.weight.value().to_doubles();
  std::vector<double> ys(xs.size()), dxs(xs.size()), dws(ws.size());
  for (size_t n = 0; n < windows.size(); ++n)
    for (size_t t = 0; t < windows[n].size(); ++t) {
      if (windows[n][t] < 0) continue;
      const auto m = static_cast<size_t>(windows[n][t]);
      ys[n] += ws[t] * xs[m];
      dxs[m] += ws[t] * dys[n];
      dws[t] += xs[m] * dys[n];
    }
  EXPECT_LE(relative_error(y.value(), Tensor::from(ys, {1, N, 1})), 1e-6);
  EXPECT_LE(relative_error(x.grad(), Tensor::from(dxs, {1, N, 1})), 1e-6);
  EXPECT_LE(relative_error(convolution.weight.grad(), Tensor::from(dws, {6, 1})), 1e-6);
  const ConvolutionState state =
      convolution.start(Tensor::from(std::vector<int32_t>{0}, {1}), DType::f32);
  for (int32_t n = 0; n < N; ++n) {
    state.positions.write(&n);
    const Var row(Tensor::from(std::vector<float>{static_cast<float>(xs[n])}, {1, 1, 1}));
    EXPECT_NEAR(convolution.forward(row, &state).value().to_doubles()[0], ys[n], 1e-5) << n;
  }
}

TEST(CausalConvolution, WindowsReadNothingBeyondTheImage) {
  for (const int64_t channels : {1, 3})
    for (const int64_t width : {2, 3, 5})
      for (const int64_t height : {1, 2, 4}) expect_windows_of_pixels({height, width, channels});
}

// A model of images of 4 x 4 pixels of 3 channels.
ModelConfig convolved(const std::string& kind) {
  ModelConfig config = small_transformer(2);
  config.dropout = 0;
  config.image_width = 4;
  config.image_channels = 3;
  config.layer_convolution = kind;
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
  const auto plain = Transformer(convolved("none")).forward(ids, false).value();
  for (const std::string kind : {"1d", "2d"}) {
    Transformer model(convolved(kind));
    EXPECT_EQ(model.forward(ids, false).value().to_vector<float>(), plain.to_vector<float>());
    randomize_convolutions(model);
    EXPECT_NE(model.forward(ids, false).value().to_vector<float>(), plain.to_vector<float>());
  }
}

TEST(CausalConvolution, SamplingStepsAreTheRowsOfTheWhole) {
  for (const std::string attention : {"linear", "softmax"})
    for (const bool reversible : {false, true})
      for (const std::string kind : {"1d", "2d"}) {
        ModelConfig config = convolved(kind);
        config.attentions[0].name = attention;
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
    ModelConfig config = convolved("2d");
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
  for (const char* kind : {"1d", "2d"}) {
    Transformer model(convolved(kind));
    backward(cross_entropy(model.forward(ids, true), ids));
    for (const Parameter& parameter : model.parameters())
      if (parameter.name.find("convolution") != std::string::npos) {
        int64_t zeros = 0;
        for (const double g : parameter.var.grad().to_doubles()) zeros += g == 0;
        EXPECT_EQ(zeros, 0) << kind << " " << parameter.name;
      }
  }
}

TEST(CausalConvolution, ItsRowsCountAsState) {
  const size_t plain = Transformer(convolved("none")).start(3).bytes();
  const size_t rows = 14 + 1;  // the largest offset is 4 * 3 + 3 - 1
  EXPECT_EQ(Transformer(convolved("2d")).start(3).bytes() - plain, 2 * 2 * rows * 3 * 16 * 4);
  EXPECT_EQ(Transformer(convolved("1d")).start(3).bytes() - plain, 2 * 2 * size_t{4} * 3 * 16 * 4);
}

TEST(CausalConvolution, NeedsImagesForTwoDimensions) {
  for (const int64_t width : {0, 1}) {
    ModelConfig config = convolved("2d");
    config.image_width = width;
    expect_error(ErrorKind::usage, {"`layer_convolution` 2d", "1d", "images"},
                 [&] { Transformer{config}; });
  }
  expect_error(ErrorKind::usage, {"`layer_convolution` is '3d'", "none, 1d, 2d"},
               [] { Transformer{convolved("3d")}; });
  ModelConfig pairs = convolved("1d");
  pairs.second_vocab_size = 3;
  pairs.layers = pairs.heads = 1;
  expect_error(ErrorKind::usage, {"`layer_convolution`"}, [&] { RetrievalModel{pairs}; });
}

}  // namespace
}  // namespace linea
