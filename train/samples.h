// Samples as a grid of images or as text.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "data/image.h"
#include "data/image_set.h"
#include "nn/generation.h"
#include "parallel/ranks.h"
#include "train/run/checkpoint.h"

namespace linea {

struct ImageRequest {
  int64_t count = 64;
  int64_t class_label = -1;        // -1: the classes in turn
  std::optional<int64_t> scale{};  // of the sheet's pixels, as image_grid takes it
  Ranks* ranks = nullptr;  // that share the images; they all get them, and rank 0 writes the PNG
};

// Called with the tokens sampled so far and their total.
using SamplingProgress = std::function<void(int64_t done, int64_t all)>;

// Rows to sample in one batch. On a GPU, where launches cost as much as thousands of rows: as many
// as have their states (two each with guidance) in half of the memory, at most 4096. On a CPU, and
// where a state grows with each position: 256.
int64_t sampling_batch(const Model& model, const SamplingOptions& options = {});

// Samples `tokens` tokens after each prompt, in batches of sampling_batch() rows, which do not
// affect the random numbers of a row. `continues`, where given, gets the tokens of each position of
// a batch and ends the batch by false.
std::vector<std::vector<int32_t>> sample_rows(const Model& model, const SamplingOptions& options,
                                              const std::vector<std::vector<int32_t>>& prompts,
                                              int64_t tokens, const SamplingProgress& progress,
                                              const TokenCallback& continues = {});

// The columns of a grid of `count` images. Where the classes come in turn and divide the count, a
// multiple of `classes`, so that each column has one class. Else 8 of up to 64 images where they
// divide them, or whatever leaves the fewest places empty: none if the count has two factors whose
// ratio is at most 4.
int64_t grid_columns(int64_t count, int64_t classes);

// The layout of images of a task, each pixel shown as scale x scale pixels; by default as many as
// make an image 56 wide. Error: ErrorKind::usage, a scale outside of 1 to kMaxScale, or too many
// images for one PNG.
constexpr int64_t kMaxScale = 256;
ImageGrid image_grid(const TaskShape& shape, int64_t count, int64_t columns,
                     std::optional<int64_t> scale = {});

// Images with the classes that the model was asked for (0 without classes). Where `progress` throws
// Interrupted (train/run/signals.h) on one of several ranks, it is thrown on all.
ImageSet sample_image_set(const Model& model, const TaskShape& shape,
                          const SamplingOptions& options, const ImageRequest& request,
                          const SamplingProgress& progress);

// Samples images and writes their grid as a PNG; returns a preview for a terminal of this width.
// Errors: a model of text, a class that the model does not have.
std::string sample_images(const Model& model, const TaskShape& shape,
                          const SamplingOptions& options, const ImageRequest& request,
                          const std::filesystem::path& png, int64_t preview_width,
                          const SamplingProgress& progress = {});

struct TextRequest {
  std::string prompt;
  int64_t tokens = 500;
  std::vector<std::string> stops = {};  // the sampled text ends before the first of these
};

// Samples tokens after the prompt; `print` gets the prompt and the text as it is sampled, in
// whole characters (WholeCharacters). Error: a prompt token outside the vocabulary.
void sample_text(const Model& model, const std::string& vocabulary, const SamplingOptions& options,
                 const TextRequest& request, const std::function<void(const std::string&)>& print);

// `count` continuations of the prompt, each printed with it when its batch is sampled. Error: a
// count below 1, and those of sample_text.
void sample_texts(const Model& model, const std::string& vocabulary, const SamplingOptions& options,
                  const TextRequest& request, int64_t count,
                  const std::function<void(const std::string&)>& print,
                  const SamplingProgress& progress = {});

}  // namespace linea
