#include "train/inference/complete.h"

#include <algorithm>

#include "data/files.h"
#include "data/image.h"
#include "data/readers/image_file.h"
#include "data/tasks/image_task.h"

namespace linea {
namespace {

constexpr uint8_t kMissingGray = 40;  // darker than the lines between images

}  // namespace

std::string sample_completions(const Model& model, const TaskShape& shape,
                               const SamplingOptions& options,
                               const std::vector<GivenImage>& images, int64_t keep_rows,
                               int64_t count, std::optional<int64_t> scale,
                               const std::filesystem::path& png, int64_t preview_width,
                               const SamplingProgress& progress) {
  require(keep_rows >= 1 && keep_rows < shape.side,
          "`keep_rows` is {}; it must be 1 to {} of the {} rows", keep_rows, shape.side - 1,
          shape.side);
  require(count >= 1, "`count` is {}; it must be at least 1", count);
  const int64_t columns = 2 + std::min(count, kMaxImagePixels);
  ImageGrid grid = image_grid(shape, static_cast<int64_t>(images.size()) * columns, columns, scale);
  { const AtomicFile writable(png); }  // refused now rather than after sampling
  const auto given = static_cast<std::ptrdiff_t>(keep_rows * shape.side * shape.channels);
  std::vector<std::vector<int32_t>> prompts;
  for (const GivenImage& image : images) {
    std::vector<int32_t> prompt = {image.start};
    prompt.insert(prompt.end(), image.tokens.begin(), image.tokens.begin() + given);
    prompts.insert(prompts.end(), static_cast<size_t>(count), prompt);
  }
  const auto sampled = sample_rows(model, options, prompts, shape.length - given, progress);

  std::vector<uint8_t> grays;
  const auto append = [&](auto first, auto last) {
    for (auto token = first; token != last; ++token)
      grays.push_back(token_to_gray(*token, shape.levels));
  };
  for (size_t i = 0; i < images.size(); ++i) {
    const std::vector<int32_t>& tokens = images[i].tokens;
    const auto split = tokens.begin() + given;
    append(tokens.begin(), tokens.end());
    append(tokens.begin(), split);
    grays.insert(grays.end(), static_cast<size_t>(tokens.end() - split), kMissingGray);
    for (size_t row = i * static_cast<size_t>(count); row < (i + 1) * static_cast<size_t>(count);
         ++row) {
      append(tokens.begin(), split);
      append(sampled[row].begin(), sampled[row].end());
    }
  }
  grid.captions = {"image", "given"};
  for (int64_t i = 1; i <= count; ++i) grid.captions.push_back(std::to_string(i));
  write_png_grid(png, grays, grid);
  return preview_width > 0 ? terminal_preview(grays, grid, preview_width) : "";
}

}  // namespace linea
