#include "train/samples.h"

#include <algorithm>

#include "data/files.h"
#include "data/picture_task.h"
#include "data/text.h"
#include "train/given_pictures.h"
#include "train/memory_advice.h"

namespace linea {
namespace {

constexpr int64_t kFewestAtOnce = 256, kMostAtOnce = 4096;

std::string drawing_advice(int64_t at_once) {
  if (at_once == 1) return machine_advice();
  return fmt::format("lower --count until fewer than {} pictures are drawn at once, or {}", at_once,
                     machine_advice());
}

}  // namespace

int64_t rows_at_once(const Transformer& model) {
  if (context().device.kind == DeviceKind::cpu || !model.repeats_its_steps()) return kFewestAtOnce;
  size_t of_row = 0;
  for (const auto& layer : model.start(1).layers) of_row += layer->bytes();
  const size_t fit = memory_limit().bytes / 2 / of_row;
  const auto rows = static_cast<int64_t>(std::min<size_t>(fit, kMostAtOnce));
  return std::max(rows / kFewestAtOnce * kFewestAtOnce, kFewestAtOnce);
}

PictureGrid grid_of(const TaskShape& shape, int64_t count, int64_t columns) {
  PictureGrid grid;
  grid.count = count;
  grid.height = grid.width = shape.side;
  grid.channels = shape.channels;
  grid.columns = columns;
  grid.scale = std::max<int64_t>(1, 56 / shape.side);
  return grid;
}

std::vector<std::vector<int32_t>> draw_rows(const Transformer& model,
                                            const SamplingOptions& options,
                                            const std::vector<std::vector<int32_t>>& prompts,
                                            int64_t tokens, const DrawingProgress& progress) {
  const int64_t all = static_cast<int64_t>(prompts.size());
  std::vector<std::vector<int32_t>> result;
  const int64_t at_once = std::min(all, rows_at_once(model));
  for (int64_t first = 0; first < all; first += at_once) {
    const int64_t count = std::min(at_once, all - first);
    const std::vector<std::vector<int32_t>> group(prompts.begin() + first,
                                                  prompts.begin() + first + count);
    SamplingOptions own = options;
    own.first_row += first;
    int64_t drawn = 0;
    const auto watch = [&](const std::vector<int32_t>&) {
      if (progress) progress(first * tokens + ++drawn * count, all * tokens);
    };
    const auto rows = with_model_memory(&model, drawing_advice(at_once), [&] {
      return Generator(model, own).draw(group, tokens, watch);
    });
    result.insert(result.end(), rows.begin(), rows.end());
  }
  return result;
}

std::string draw_pictures(const Transformer& model, const TaskShape& shape,
                          const SamplingOptions& options, const PictureRequest& request,
                          const std::filesystem::path& png, int64_t preview_width,
                          const DrawingProgress& progress) {
  require(shape.side > 0, "this model draws no pictures; ask it for text with --tokens");
  require(request.count >= 1, "--count is {}; it must be at least 1", request.count);
  require_class(shape, request.class_label);
  { const AtomicFile writable(png); }  // an error now rather than after the drawing
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t i = 0; i < request.count; ++i) {
    const int64_t label = request.class_label >= 0 ? request.class_label
                          : shape.classes > 0      ? i % shape.classes
                                                   : 0;
    prompts.push_back({shape.start + static_cast<int32_t>(label)});
  }
  std::vector<uint8_t> greys;
  for (const std::vector<int32_t>& row : draw_rows(model, options, prompts, shape.length, progress))
    for (const int32_t token : row) greys.push_back(token_to_gray(token, shape.levels));
  const PictureGrid grid = grid_of(shape, request.count, std::min<int64_t>(8, request.count));
  write_png_grid(png, greys, grid);
  return preview_width > 0 ? terminal_preview(greys, grid, preview_width) : "";
}

void draw_text(const Transformer& model, const std::string& vocabulary,
               const SamplingOptions& options, const std::string& prompt, int64_t tokens,
               const std::function<void(const std::string&)>& print) {
  require(!vocabulary.empty(), "this model writes no text");
  require(tokens >= 1, "--tokens is {}; it must be at least 1", tokens);
  const Vocabulary tokens = Vocabulary::parse(vocabulary);
  std::vector<int32_t> start = tokens.encode(prompt);
  print(prompt);
  if (start.empty()) start = {tokens.start_token()};
  const auto watch = [&](const std::vector<int32_t>& drawn) { print(tokens.decode(drawn)); };
  with_model_memory(&model, drawing_advice(1),
                    [&] { Generator(model, options).draw({start}, tokens, watch); });
}

}  // namespace linea
