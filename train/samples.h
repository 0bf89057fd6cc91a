// Samples as a person sees them: a grid of images, or text.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "data/image.h"
#include "nn/generation.h"
#include "train/checkpoint.h"

namespace linea {

struct ImageRequest {
  int64_t count = 64;
  int64_t class_label = -1;  // -1: each class in turn
};

// Hears how many tokens of how many are drawn.
using SamplingProgress = std::function<void(int64_t done, int64_t all)>;

// How many rows are drawn side by side: on a GPU, whose launches cost what thousands of rows do, as
// many of whose states half of the memory holds, at most 4096; on a CPU, and where a state grows
// with each position, 256.
int64_t rows_at_once(const Model& model);

// `tokens` of them after each prompt, rows_at_once() rows at a time; the random numbers of a row
// do not hang on that.
std::vector<std::vector<int32_t>> sample_rows(const Model& model, const SamplingOptions& options,
                                              const std::vector<std::vector<int32_t>>& prompts,
                                              int64_t tokens, const SamplingProgress& progress);

// How images of a task are laid out.
ImageGrid grid_of(const TaskShape& shape, int64_t count, int64_t columns);

// Draws images and writes their grid as a PNG; returns a preview for a terminal of this width.
// Errors: the model draws no images, a class that it does not have.
std::string sample_images(const Model& model, const TaskShape& shape,
                          const SamplingOptions& options, const ImageRequest& request,
                          const std::filesystem::path& png, int64_t preview_width,
                          const SamplingProgress& progress = {});

// Draws `tokens` tokens after the prompt; `print` gets each piece of text as it is drawn. Error: a
// prompt token outside the vocabulary.
void sample_text(const Model& model, const std::string& vocabulary, const SamplingOptions& options,
                 const std::string& prompt, int64_t tokens,
                 const std::function<void(const std::string&)>& print);

}  // namespace linea
