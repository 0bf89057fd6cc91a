// Where a model is surprised: the bits of every pixel of a image.
#pragma once

#include <filesystem>

#include "train/inference/given_images.h"
#include "train/samples.h"

namespace linea {

// -log2 P of every token of every image, given those before it, by the parallel form: what
// evaluate() adds up.
std::vector<std::vector<float>> bits_of_tokens(const Model& model,
                                               const std::vector<GivenImage>& images);

// Writes a PNG: each image, and beside it its bits, a map for each channel, from black (0 bits)
// over red to white (log2(levels) bits, what a level costs where all are alike, and more). Returns
// a preview.
std::string write_nll_map(const TaskShape& shape, const std::vector<GivenImage>& images,
                          const std::vector<std::vector<float>>& bits,
                          const std::filesystem::path& png, int64_t preview_width);

}  // namespace linea
