#include "train/inference/nll_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/image.h"
#include "data/tasks/image_task.h"
#include "train/evaluate.h"
#include "train/run/out_of_memory_hint.h"

namespace linea {
namespace {

using Color = std::array<uint8_t, 3>;

// Lightness increases with `heat`, in [0, 1].
Color heat_color(double heat) {
  constexpr double kStops[][3] = {
      {0, 0, 0}, {80, 15, 110}, {200, 45, 60}, {250, 160, 30}, {255, 255, 230}};
  constexpr int kSteps = static_cast<int>(std::size(kStops)) - 1;
  const double position = std::clamp(heat, 0.0, 1.0) * kSteps;
  const int below = std::min(static_cast<int>(position), kSteps - 1);
  Color color;
  for (size_t i = 0; i < 3; ++i)
    color[i] = static_cast<uint8_t>(std::lround(
        kStops[below][i] + (position - below) * (kStops[below + 1][i] - kStops[below][i])));
  return color;
}

double max_bits(const TaskShape& shape) { return std::log2(static_cast<double>(shape.levels)); }

ColorScale bits_scale(const TaskShape& shape) {
  ColorScale scale{{}, max_bits(shape), "bits"};
  for (int i = 0; i < 256; ++i) {
    const Color color = heat_color(i / 255.0);
    scale.colors.insert(scale.colors.end(), color.begin(), color.end());
  }
  return scale;
}

void append_image(const GivenImage& image, const TaskShape& shape, std::vector<uint8_t>& colors) {
  for (size_t i = 0; i < image.tokens.size(); ++i) {
    const uint8_t gray = token_to_gray(image.tokens[i], shape.levels);
    colors.insert(colors.end(), shape.channels == 1 ? 3 : 1, gray);
  }
}

void append_heat(const std::vector<float>& bits, const TaskShape& shape, int64_t channel,
                 std::vector<uint8_t>& colors) {
  for (auto i = static_cast<size_t>(channel); i < bits.size();
       i += static_cast<size_t>(shape.channels)) {
    const Color color = heat_color(bits[i] / max_bits(shape));
    colors.insert(colors.end(), color.begin(), color.end());
  }
}

}  // namespace

std::vector<std::vector<float>> token_bits(const Model& model,
                                           const std::vector<GivenImage>& images) {
  const NoGrad no_grad;
  const int64_t length = model.config().length;
  std::vector<std::vector<float>> bits;
  for (const GivenImage& image : images) {
    std::vector<int32_t> inputs = {image.start};
    inputs.insert(inputs.end(), image.tokens.begin(), image.tokens.end() - 1);
    bits.push_back(with_model_memory(&model, machine_hint(), [&] {
      const Tensor ids = token_tensor(inputs, {1, length}, model.config().input_vocab_size);
      const Tensor outputs = model.forward(ids, false).value();
      return model.output_head()
          .losses(outputs, Tensor::from(image.tokens, {1, length}))
          .to_vector<float>();
    }));
    for (float& value : bits.back()) value = static_cast<float>(to_bits(value));
  }
  return bits;
}

std::string write_nll_map(const TaskShape& shape, const std::vector<GivenImage>& images,
                          const std::vector<std::vector<float>>& bits, std::optional<int64_t> scale,
                          const std::filesystem::path& png, int64_t preview_width) {
  std::vector<uint8_t> colors;
  for (size_t i = 0; i < images.size(); ++i) {
    append_image(images[i], shape, colors);
    for (int64_t channel = 0; channel < shape.channels; ++channel)
      append_heat(bits[i], shape, channel, colors);
  }
  const int64_t shown = 1 + shape.channels, count = static_cast<int64_t>(images.size());
  ImageGrid grid =
      image_grid(shape, count * shown, std::min<int64_t>(count, 8 / shown) * shown, scale);
  grid.channels = 3;
  grid.color_scale = bits_scale(shape);
  write_png_grid(png, colors, grid);
  return preview_width > 0 ? terminal_preview(colors, grid, preview_width) : "";
}

}  // namespace linea
