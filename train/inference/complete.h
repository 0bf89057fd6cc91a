// Completion: the upper rows of images are given, the rest is sampled.
#pragma once

#include <filesystem>

#include "train/inference/given_images.h"
#include "train/samples.h"

namespace linea {

// Writes a PNG with a row for each image: the image, its given rows (the rest dark gray) and
// `count` completions, at the scale of image_grid. Returns a preview for a terminal of this width.
// Error: keep_rows that leave nothing to read or to sample, a count below 1.
std::string sample_completions(const Model& model, const TaskShape& shape,
                               const SamplingOptions& options,
                               const std::vector<GivenImage>& images, int64_t keep_rows,
                               int64_t count, std::optional<int64_t> scale,
                               const std::filesystem::path& png, int64_t preview_width,
                               const SamplingProgress& progress = {});

}  // namespace linea
