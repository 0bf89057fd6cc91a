#include "train/samples.h"

#include <algorithm>

#include "data/files.h"
#include "data/picture.h"
#include "data/picture_task.h"
#include "data/text.h"

namespace linea {
namespace {

constexpr int64_t kPicturesAtOnce = 256;

PictureGrid grid_of(const TaskShape& shape, int64_t count) {
  PictureGrid grid;
  grid.count = count;
  grid.height = grid.width = shape.side;
  grid.channels = shape.channels;
  grid.columns = std::min<int64_t>(8, count);
  grid.scale = std::max<int64_t>(1, 56 / shape.side);
  return grid;
}

}  // namespace

std::string draw_pictures(const Transformer& model, const TaskShape& shape, const SamplingOptions& options,
                          const PictureRequest& request, const std::filesystem::path& png,
                          int64_t preview_width,
                          const std::function<void(int64_t, int64_t)>& progress) {
  require(shape.side > 0, "this model draws no pictures; ask it for text with --tokens");
  require(request.count >= 1, "--count is {}; it must be at least 1", request.count);
  require(request.class_label >= -1, "--class is {}; there are 0 to {}", request.class_label, shape.classes - 1);
  require(request.class_label < 0 || shape.classes > 0,
          "--class {}: this model was not trained with --class-token", request.class_label);
  require(request.class_label < std::max<int64_t>(shape.classes, 1), "--class is {}; there are 0 to {}",
          request.class_label, shape.classes - 1);
  { const AtomicFile writable(png); }  // an error now rather than after the drawing
  std::vector<uint8_t> greys;
  for (int64_t first = 0; first < request.count; first += kPicturesAtOnce) {
    const int64_t count = std::min(kPicturesAtOnce, request.count - first);
    std::vector<std::vector<int32_t>> prompt;
    for (int64_t i = first; i < first + count; ++i) {
      const int64_t label = request.class_label >= 0 ? request.class_label
                            : shape.classes > 0      ? i % shape.classes
                                                     : 0;
      prompt.push_back({shape.start + static_cast<int32_t>(label)});
    }
    SamplingOptions own = options;
    own.seed += static_cast<uint64_t>(first / kPicturesAtOnce) << 32;  // each group has its own numbers
    int64_t drawn = 0;
    const auto rows = Generator(model, own).draw(prompt, shape.length, [&](const std::vector<int32_t>&) {
      if (progress) progress(first * shape.length + ++drawn * count, request.count * shape.length);
    });
    for (const std::vector<int32_t>& row : rows)
      for (const int32_t symbol : row) greys.push_back(symbol_to_grey(symbol, shape.levels));
  }
  const PictureGrid grid = grid_of(shape, request.count);
  write_png_grid(png, greys, grid);
  return preview_width > 0 ? terminal_preview(greys, grid, preview_width) : "";
}

void draw_text(const Transformer& model, const std::string& vocabulary, const SamplingOptions& options,
               const std::string& prompt, int64_t tokens,
               const std::function<void(const std::string&)>& print) {
  require(!vocabulary.empty(), "this model writes no text");
  require(tokens >= 1, "--tokens is {}; it must be at least 1", tokens);
  const Vocabulary symbols = Vocabulary::parse(vocabulary);
  std::vector<int32_t> start = symbols.encode(prompt);
  print(prompt);
  if (start.empty()) start = {symbols.start_symbol()};
  Generator(model, options).draw({start}, tokens, [&](const std::vector<int32_t>& drawn) {
    print(symbols.decode(drawn));
  });
}

}  // namespace linea
