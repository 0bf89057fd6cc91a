#include "judge/classifier.h"

#include <algorithm>
#include <cmath>

#include "data/hash.h"
#include "data/tasks/image_task.h"
#include "nn/optimizer.h"
#include "tensor/ops.h"

namespace linea {
namespace {

#ifdef LINEA_NAN_FILL  // where a step takes ten times as long, and no test needs more of them
constexpr int64_t kSteps = 300;
#else
constexpr int64_t kSteps = 2000;
#endif
constexpr int64_t kBatch = 128, kWarmup = 100, kPredictBatch = 500;
constexpr double kRate = 2e-3, kMinRate = 2e-5;
constexpr uint64_t kSeed = 1;
constexpr int64_t kKernel = 3, kStride = 2;

int64_t convolved_side(int64_t side) { return (side - kKernel) / kStride + 1; }

// The pixel numbers of each patch: [B,s,s,3,3] of [B,side,side].
Tensor patch_pixels(int64_t batch, int64_t side) {
  std::vector<int32_t> pixels;
  const int64_t result = convolved_side(side);
  for (int64_t image = 0; image < batch; ++image)
    for (int64_t y = 0; y < result; ++y)
      for (int64_t x = 0; x < result; ++x)
        for (int64_t row = y * kStride; row < y * kStride + kKernel; ++row)
          for (int64_t column = x * kStride; column < x * kStride + kKernel; ++column)
            pixels.push_back(static_cast<int32_t>((image * side + row) * side + column));
  const auto count = static_cast<int64_t>(pixels.size());
  return Tensor::from(pixels, {count});
}

// Std of weights before ReLU (He 2015).
double init_std(int64_t inputs) { return std::sqrt(2.0 / static_cast<double>(inputs)); }

Linear make_linear(ParameterInit& init, const std::string& name, int64_t in, int64_t out) {
  return {init, name, in, out, init_std(in), true};
}

// Pixels in [0, 1].
Tensor pixel_tensor(const ImageSet& images, int64_t first, int64_t count) {
  std::vector<float> pixels(static_cast<size_t>(count * images.image_bytes()));
  const uint8_t* from = images.pixels.data() + first * images.image_bytes();
  std::transform(from, from + pixels.size(), pixels.begin(),
                 [](uint8_t gray) { return static_cast<float>(gray) / 255; });
  return Tensor::from(pixels, {count, images.side, images.side, images.channels});
}

}  // namespace

// A patch is a row of gathered pixels, so that a convolution is a product.
Var convolve(const Var& x, const Linear& kernel) {
  const int64_t batch = x.size(0), side = x.size(1), channels = x.size(3);
  const int64_t result = convolved_side(side);
  const Var patches =
      embedding(reshape(x, {batch * side * side, channels}), patch_pixels(batch, side));
  const Var y =
      kernel.forward(reshape(patches, {batch * result * result, kKernel * kKernel * channels}));
  return reshape(y, {batch, result, result, y.size(1)});
}

Classifier::Classifier(int64_t side, int64_t channels, int64_t classes)
    : side_(side), channels_(channels) {
  require(side >= kMinJudgedSide,
          "images of {0} x {0} pixels are too small to be judged: {1} x {1}", side, kMinJudgedSide);
  constexpr int64_t kFirst = 16, kSecond = 32;
  const int64_t last_side = convolved_side(convolved_side(side));
  ParameterInit init(parameters_, kSeed);
  first_ = make_linear(init, "first", kKernel * kKernel * channels, kFirst);
  second_ = make_linear(init, "second", kKernel * kKernel * kFirst, kSecond);
  dense_ = make_linear(init, "dense", last_side * last_side * kSecond, kUnits);
  scores_ = make_linear(init, "scores", kUnits, classes);
}

Var Classifier::units(const Tensor& pixels) const {
  const Var first = pointwise(Pointwise::relu, convolve(Var(pixels), first_));
  const Var second = pointwise(Pointwise::relu, convolve(first, second_));
  return pointwise(Pointwise::relu,
                   dense_.forward(reshape(second, {second.size(0), second.size(1) * second.size(2) *
                                                                       second.size(3)})));
}

void Classifier::train(const Task& task, const WorkProgress& progress) {
  Optimizer optimizer({}, parameters_);
  for (int64_t step = 0; step < kSteps; ++step) {
    const ImageSet images = images_of(
        task.shape(), task.train_rows(kSeed, static_cast<uint64_t>(step) * kBatch, kBatch));
    const std::vector<int32_t> classes(images.labels.begin(), images.labels.end());
    const Var scores = scores_.forward(units(pixel_tensor(images, 0, kBatch)));
    backward(cross_entropy(scores, Tensor::from(classes, {kBatch})));
    optimizer.step(learning_rate_at(step, kSteps, kWarmup, kRate, kMinRate));
    if (progress) progress(step + 1, kSteps);
  }
}

Classifier::Predictions Classifier::predict(const ImageSet& images) const {
  require(images.side == side_ && images.channels == channels_,
          "images of {} x {} x {} for a classifier of {} x {} x {}", images.side, images.side,
          images.channels, side_, side_, channels_);
  const NoGrad no_grad;
  Predictions result;
  const auto append = [](const Tensor& values, std::vector<float>& all) {
    const std::vector<float> more = values.to_vector<float>();
    all.insert(all.end(), more.begin(), more.end());
  };
  for (int64_t first = 0; first < images.count(); first += kPredictBatch) {
    const int64_t count = std::min(kPredictBatch, images.count() - first);
    const Var features = units(pixel_tensor(images, first, count));
    append(features.value(), result.units);
    append(ops::softmax(scores_.forward(features).value()), result.probabilities);
  }
  return result;
}

std::string Classifier::hash() const {
  Hasher hasher;
  for (const Parameter& parameter : parameters_) {
    const std::vector<float> weights = parameter.var.value().to_vector<float>();
    hasher.update(weights.data(), weights.size() * sizeof(float));
  }
  return hasher.hex();
}

std::string classifier_settings() {
  return fmt::format("{} steps of {}, warm-up {}, rate {} to {}, seed {}", kSteps, kBatch, kWarmup,
                     kRate, kMinRate, kSeed);
}

ImageSet images_of(const TaskShape& shape, const Batch& batch) {
  ImageSet images{shape.side, shape.channels, {}, {}};
  for (int64_t row = 0; row < batch.rows; ++row) {
    const int32_t start = batch.inputs[static_cast<size_t>(row * batch.length)];
    images.labels.push_back(shape.classes > 0 ? static_cast<uint8_t>(start - shape.start) : 0);
  }
  for (const int32_t token : batch.targets)
    images.pixels.push_back(token_to_gray(token, shape.levels));
  return images;
}

}  // namespace linea
