// Sampling of images by a model that skips blank positions (nn/blank.h): each row is at a position of its
// own, so that the blocks run once for the next position of every row that is not blank, and blank
// positions between them take the small layer alone.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/generation.h"

namespace linea {

// As sample_tokens: the tokens of a model's parallel form, with the random numbers of their rows
// and positions. Error: more tokens than the model's length.
TokenRows sample_skipping(const Model& model, const SamplingOptions& options,
                          const TokenRows& prompt, int64_t count, const TokenCallback& on_tokens);

}  // namespace linea
