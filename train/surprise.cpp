#include "train/surprise.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/picture.h"
#include "data/picture_task.h"
#include "train/evaluate.h"
#include "train/memory_advice.h"

namespace linea {
namespace {

using Colour = std::array<uint8_t, 3>;

// Lighter all the way; `heat` in [0, 1].
Colour heat_colour(double heat) {
  constexpr double kStops[][3] = {
      {0, 0, 0}, {80, 15, 110}, {200, 45, 60}, {250, 160, 30}, {255, 255, 230}};
  constexpr int kSteps = static_cast<int>(std::size(kStops)) - 1;
  const double place = std::clamp(heat, 0.0, 1.0) * kSteps;
  const int below = std::min(static_cast<int>(place), kSteps - 1);
  Colour colour;
  for (size_t i = 0; i < 3; ++i)
    colour[i] = static_cast<uint8_t>(std::lround(
        kStops[below][i] + (place - below) * (kStops[below + 1][i] - kStops[below][i])));
  return colour;
}

void append_picture(const GivenPicture& picture, const TaskShape& shape,
                    std::vector<uint8_t>& colours) {
  for (size_t i = 0; i < picture.tokens.size(); ++i) {
    const uint8_t grey = token_to_gray(picture.tokens[i], shape.levels);
    colours.insert(colours.end(), shape.channels == 1 ? 3 : 1, grey);
  }
}

void append_heat(const std::vector<float>& bits, const TaskShape& shape, int64_t channel,
                 std::vector<uint8_t>& colours) {
  const double most = std::log2(static_cast<double>(shape.levels));
  for (auto i = static_cast<size_t>(channel); i < bits.size();
       i += static_cast<size_t>(shape.channels)) {
    const Colour colour = heat_colour(bits[i] / most);
    colours.insert(colours.end(), colour.begin(), colour.end());
  }
}

}  // namespace

std::vector<std::vector<float>> bits_of_tokens(const Transformer& model,
                                                const std::vector<GivenPicture>& pictures) {
  const NoGrad no_grad;
  const int64_t length = model.config().length;
  std::vector<std::vector<float>> bits;
  for (const GivenPicture& picture : pictures) {
    std::vector<int32_t> inputs = {picture.start};
    inputs.insert(inputs.end(), picture.tokens.begin(), picture.tokens.end() - 1);
    bits.push_back(with_model_memory(&model, machine_advice(), [&] {
      const Tensor ids = token_tensor(inputs, {1, length}, model.config().input_vocab_size);
      const Tensor outputs = model.forward(ids, false).value();
      return model.head()
          .losses(outputs, Tensor::from(picture.tokens, {1, length}))
          .to_vector<float>();
    }));
    for (float& value : bits.back()) value = static_cast<float>(bits_of(value));
  }
  return bits;
}

std::string draw_surprise(const TaskShape& shape, const std::vector<GivenPicture>& pictures,
                          const std::vector<std::vector<float>>& bits,
                          const std::filesystem::path& png, int64_t preview_width) {
  std::vector<uint8_t> colours;
  for (size_t i = 0; i < pictures.size(); ++i) {
    append_picture(pictures[i], shape, colours);
    for (int64_t channel = 0; channel < shape.channels; ++channel)
      append_heat(bits[i], shape, channel, colours);
  }
  const int64_t shown = 1 + shape.channels, count = static_cast<int64_t>(pictures.size());
  PictureGrid grid = grid_of(shape, count * shown, std::min<int64_t>(count, 8 / shown) * shown);
  grid.channels = 3;
  write_png_grid(png, colours, grid);
  return preview_width > 0 ? terminal_preview(colours, grid, preview_width) : "";
}

}  // namespace linea
