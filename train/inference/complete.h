// Completion: the upper rows of images are kept, the rest is drawn.
#pragma once

#include <filesystem>

#include "train/inference/given_images.h"
#include "train/samples.h"

namespace linea {

// Writes a PNG with a line for each image: the image, what of it was kept (the rest dark gray),
// and `count` completions. Returns a preview for a terminal of this width. Error: keep_rows that
// leave nothing to read or nothing to draw, a count below 1.
std::string sample_completions(const Model& model, const TaskShape& shape,
                               const SamplingOptions& options,
                               const std::vector<GivenImage>& images, int64_t keep_rows,
                               int64_t count, const std::filesystem::path& png,
                               int64_t preview_width, const SamplingProgress& progress = {});

}  // namespace linea
