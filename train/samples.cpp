#include "train/samples.h"

#include <algorithm>
#include <cmath>

#include "data/files.h"
#include "data/readers/image_file.h"
#include "data/tasks/image_task.h"
#include "data/vocabulary.h"
#include "train/inference/given_images.h"
#include "train/inference/stop_text.h"
#include "train/run/out_of_memory_hint.h"
#include "train/run/signals.h"

namespace linea {
namespace {

constexpr int64_t kMinBatch = 256, kMaxBatch = 4096;

std::string sampling_hint(int64_t batch) {
  if (batch == 1) return machine_hint();
  return fmt::format("lower `count` until fewer than {} images are sampled at once, or {}", batch,
                     machine_hint());
}

}  // namespace

int64_t sampling_batch(const Model& model, const SamplingOptions& options) {
  if (context().device.kind == DeviceKind::cpu || !model.is_step_capturable()) return kMinBatch;
  const size_t state = model.start(options.is_guided() ? 2 : 1).bytes();
  const auto fit = static_cast<int64_t>(device_allocator().limit().bytes / 2 / state);
  return std::clamp(fit / kMinBatch * kMinBatch, kMinBatch, kMaxBatch);
}

int64_t grid_columns(int64_t count, int64_t classes) {
  constexpr int64_t kRow = 8, kMaxClasses = 32;
  const double images = static_cast<double>(count), root = std::sqrt(images);
  const auto stretch = [&](int64_t columns) {  // of the longer side, 1 for a square
    const double square = static_cast<double>(columns) * static_cast<double>(columns);
    return std::max(square / images, images / square);
  };
  int64_t best = 0;
  const auto offer = [&](int64_t columns) {
    if (best == 0 || stretch(columns) <= stretch(best)) best = columns;
  };
  if (classes > 1)
    for (int64_t columns = classes; columns <= std::min(count, kMaxClasses); columns += classes)
      if (count % columns == 0) offer(columns);
  if (best > 0) return best;
  if (count <= kRow) return count;
  if (count > kMaxImagePixels) return kRow;  // no sheet has room for them: check_size
  if (count <= kRow * kRow && count % kRow == 0) return kRow;
  int64_t fewest = count;
  for (auto columns = static_cast<int64_t>(std::ceil(root / 2));
       static_cast<double>(columns) <= 2 * root; ++columns) {
    const int64_t empty = (columns - count % columns) % columns;
    if (empty > fewest) continue;
    if (empty < fewest) best = 0;
    fewest = empty;
    offer(columns);
  }
  return best;
}

ImageGrid image_grid(const TaskShape& shape, int64_t count, int64_t columns,
                     std::optional<int64_t> scale) {
  require(!scale || (*scale >= 1 && *scale <= kMaxScale), "`scale` is {}; it must be 1 to {}",
          scale.value_or(0), kMaxScale);
  ImageGrid grid;
  grid.count = count;
  grid.height = grid.width = shape.side;
  grid.channels = shape.channels;
  grid.columns = columns;
  grid.scale = scale.value_or(std::max<int64_t>(1, 56 / shape.side));
  check_size(grid);
  return grid;
}

std::vector<std::vector<int32_t>> sample_rows(const Model& model, const SamplingOptions& options,
                                              const std::vector<std::vector<int32_t>>& prompts,
                                              int64_t tokens, const SamplingProgress& progress,
                                              const TokenCallback& continues) {
  const int64_t all = static_cast<int64_t>(prompts.size());
  std::vector<std::vector<int32_t>> result;
  const int64_t batch = std::min(all, sampling_batch(model, options));
  for (int64_t first = 0; first < all; first += batch) {
    const int64_t count = std::min(batch, all - first);
    const std::vector<std::vector<int32_t>> group(prompts.begin() + first,
                                                  prompts.begin() + first + count);
    SamplingOptions batch_options = options;
    batch_options.first_row += first;
    int64_t sampled = 0;
    const auto watch = [&](const std::vector<int32_t>& position) {
      if (progress) progress(first * tokens + ++sampled * count, all * tokens);
      return !continues || continues(position);
    };
    const auto rows = with_model_memory(&model, sampling_hint(batch), [&] {
      return sample_tokens(model, batch_options, group, tokens, watch);
    });
    result.insert(result.end(), rows.begin(), rows.end());
  }
  return result;
}

ImageSet sample_image_set(const Model& model, const TaskShape& shape,
                          const SamplingOptions& options, const ImageRequest& request,
                          const SamplingProgress& progress) {
  ImageSet images{shape.side, shape.channels, {}, {}};
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t i = 0; i < request.count; ++i) {
    const int64_t label = request.class_label >= 0 ? request.class_label
                          : shape.classes > 0      ? i % shape.classes
                                                   : 0;
    images.labels.push_back(static_cast<uint8_t>(label));
    prompts.push_back({shape.start + static_cast<int32_t>(label)});
  }
  Ranks alone, &all = request.ranks == nullptr ? alone : *request.ranks;
  const Share own = share_of(request.count, all.rank(), all.size());
  SamplingOptions own_options = options;
  own_options.first_row += own.first;
  std::string pixels;
  try {
    for (const std::vector<int32_t>& row :
         sample_rows(model, own_options, {prompts.begin() + own.first, prompts.begin() + own.end},
                     shape.length, progress))
      for (const int32_t token : row)
        pixels += static_cast<char>(token_to_gray(token, shape.levels));
  } catch (const Interrupted&) {  // the others see that this rank's images are missing
    if (all.alone()) throw;
  }
  for (const std::string& part : all.all_gather(pixels, "the samples"))
    images.pixels.insert(images.pixels.end(), part.begin(), part.end());
  if (static_cast<int64_t>(images.pixels.size()) != request.count * images.image_bytes())
    throw Interrupted();
  return images;
}

std::string sample_images(const Model& model, const TaskShape& shape,
                          const SamplingOptions& options, const ImageRequest& request,
                          const std::filesystem::path& png, int64_t preview_width,
                          const SamplingProgress& progress) {
  require(shape.side > 0, "this model does not sample images; sample text with `tokens`");
  require(request.count >= 1, "`count` is {}; it must be at least 1", request.count);
  require_class(shape, request.class_label);
  const ImageGrid grid = image_grid(
      shape, request.count,
      grid_columns(request.count, request.class_label < 0 ? shape.classes : 0), request.scale);
  Ranks alone, &all = request.ranks == nullptr ? alone : *request.ranks;
  all.agree("the samples", [&] {
    if (!all.is_main()) return;
    const AtomicFile writable(png);  // refused now rather than after sampling
  });
  const std::vector<uint8_t> grays =
      sample_image_set(model, shape, options, request, progress).pixels;
  all.agree("the samples", [&] {
    if (all.is_main()) write_png_grid(png, grays, grid);
  });
  return preview_width > 0 ? terminal_preview(grays, grid, preview_width) : "";
}

namespace {

Vocabulary check_text(const std::string& vocabulary, int64_t tokens) {
  require(!vocabulary.empty(), "this model does not sample text");
  require(tokens >= 1, "`tokens` is {}; it must be at least 1", tokens);
  return Vocabulary::parse(vocabulary);
}

std::vector<int32_t> encode_prompt(const Vocabulary& characters, const std::string& prompt) {
  std::vector<int32_t> start = characters.encode(prompt);
  return start.empty() ? std::vector<int32_t>{characters.start_token()} : start;
}

}  // namespace

void sample_text(const Model& model, const std::string& vocabulary, const SamplingOptions& options,
                 const TextRequest& request, const std::function<void(const std::string&)>& print) {
  const Vocabulary characters = check_text(vocabulary, request.tokens);
  const std::vector<int32_t> start = encode_prompt(characters, request.prompt);
  StopText text(request.stops);
  WholeCharacters pieces;  // a token may end inside of a character
  print(request.prompt);
  const auto watch = [&](const std::vector<int32_t>& sampled) {
    print(pieces.add(text.add(characters.decode(sampled))));
    return !text.stopped();
  };
  with_model_memory(&model, sampling_hint(1),
                    [&] { sample_tokens(model, options, {start}, request.tokens, watch); });
  print(pieces.add(text.rest()));
  print(pieces.rest());
}

void sample_texts(const Model& model, const std::string& vocabulary, const SamplingOptions& options,
                  const TextRequest& request, int64_t count,
                  const std::function<void(const std::string&)>& print,
                  const SamplingProgress& progress) {
  require(count >= 1, "`count` is {}; it must be at least 1", count);
  const Vocabulary characters = check_text(vocabulary, request.tokens);
  const std::vector<int32_t> start = encode_prompt(characters, request.prompt);
  const int64_t tokens = request.tokens, batch = std::min(count, sampling_batch(model, options));
  for (int64_t first = 0; first < count; first += batch) {
    const auto rows = static_cast<size_t>(std::min(batch, count - first));
    std::vector<StopText> texts(rows, StopText(request.stops));
    std::vector<std::string> certain(rows, request.prompt);
    SamplingOptions batch_options = options;
    batch_options.first_row += first;
    const auto watch = [&](int64_t done, int64_t) {
      if (progress) progress(first * tokens + done, count * tokens);
    };
    const auto continues = [&](const std::vector<int32_t>& position) {
      bool any = false;
      for (size_t row = 0; row < rows; ++row) {
        certain[row] += texts[row].add(characters.decode({position[row]}));
        any = any || !texts[row].stopped();
      }
      return any;
    };
    sample_rows(model, batch_options, std::vector(rows, start), tokens, watch, continues);
    for (size_t row = 0; row < rows; ++row) print(certain[row] + texts[row].rest());
  }
}

}  // namespace linea
