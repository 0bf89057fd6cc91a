// Negative log-likelihood maps: the bits of every pixel of an image.
#pragma once

#include <filesystem>

#include "train/inference/given_images.h"
#include "train/samples.h"

namespace linea {

// -log2 P of every token of every image, given the tokens before it, by the parallel form;
// evaluate() averages the same values.
std::vector<std::vector<float>> token_bits(const Model& model,
                                           const std::vector<GivenImage>& images);

// Writes a PNG: each image, followed by a map of its bits for each channel, from black (0 bits)
// through red to white (log2(levels) bits, the cost under a uniform distribution, or more). Returns
// a preview. `scale`: of image_grid.
std::string write_nll_map(const TaskShape& shape, const std::vector<GivenImage>& images,
                          const std::vector<std::vector<float>>& bits, std::optional<int64_t> scale,
                          const std::filesystem::path& png, int64_t preview_width);

}  // namespace linea
