// Completion: the upper rows of pictures are kept, the rest is drawn.
#pragma once

#include <filesystem>

#include "train/given_pictures.h"
#include "train/samples.h"

namespace linea {

// Writes a PNG with a line for each picture: the picture, what of it was kept (the rest dark grey),
// and `count` completions. Returns a preview for a terminal of this width. Error: keep_rows that
// leave nothing to read or nothing to draw, a count below 1.
std::string draw_completions(const Transformer& model, const TaskShape& shape,
                             const SamplingOptions& options,
                             const std::vector<GivenPicture>& pictures, int64_t keep_rows,
                             int64_t count, const std::filesystem::path& png, int64_t preview_width,
                             const DrawingProgress& progress = {});

}  // namespace linea
