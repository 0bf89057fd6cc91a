#include "train/inference/complete.h"

#include "data/files.h"
#include "data/image.h"
#include "data/tasks/image_task.h"

namespace linea {
namespace {

constexpr uint8_t kNotKept = 40;  // gray; that of the lines between images is lighter

}  // namespace

std::string sample_completions(const Model& model, const TaskShape& shape,
                               const SamplingOptions& options,
                               const std::vector<GivenImage>& images, int64_t keep_rows,
                               int64_t count, const std::filesystem::path& png,
                               int64_t preview_width, const SamplingProgress& progress) {
  require(keep_rows >= 1 && keep_rows < shape.side,
          "--keep-rows is {}; it must be 1 to {} of the {} rows", keep_rows, shape.side - 1,
          shape.side);
  require(count >= 1, "--count is {}; it must be at least 1", count);
  { const AtomicFile writable(png); }  // an error now rather than after the drawing
  const auto kept = static_cast<std::ptrdiff_t>(keep_rows * shape.side * shape.channels);
  std::vector<std::vector<int32_t>> prompts;
  for (const GivenImage& image : images) {
    std::vector<int32_t> prompt = {image.start};
    prompt.insert(prompt.end(), image.tokens.begin(), image.tokens.begin() + kept);
    prompts.insert(prompts.end(), static_cast<size_t>(count), prompt);
  }
  const auto sampled = sample_rows(model, options, prompts, shape.length - kept, progress);

  std::vector<uint8_t> grays;
  const auto show = [&](auto first, auto last) {
    for (auto token = first; token != last; ++token)
      grays.push_back(token_to_gray(*token, shape.levels));
  };
  for (size_t i = 0; i < images.size(); ++i) {
    const std::vector<int32_t>& tokens = images[i].tokens;
    const auto middle = tokens.begin() + kept;
    show(tokens.begin(), tokens.end());
    show(tokens.begin(), middle);
    grays.insert(grays.end(), static_cast<size_t>(tokens.end() - middle), kNotKept);
    for (size_t row = i * static_cast<size_t>(count); row < (i + 1) * static_cast<size_t>(count);
         ++row) {
      show(tokens.begin(), middle);
      show(sampled[row].begin(), sampled[row].end());
    }
  }
  const ImageGrid grid =
      image_grid(shape, static_cast<int64_t>(images.size()) * (2 + count), 2 + count);
  write_png_grid(png, grays, grid);
  return preview_width > 0 ? terminal_preview(grays, grid, preview_width) : "";
}

}  // namespace linea
