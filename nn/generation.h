// Generation: samples sequences from a model by its recurrent form, all rows of a batch at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/model.h"
#include "tensor/kernels.h"

namespace linea {

struct SamplingOptions {
  double temperature = 1.0;
  bool greedy = false;  // the most likely token always
  uint64_t seed = 1;
  int64_t top_k = 0;  // as in SamplingParams
  double top_p = 1.0;
  // The number of the first row. A row's random numbers depend on its number, not on its batch.
  int64_t first_row = 0;
  // Classifier-free guidance (Ho & Salimans 2022): l = l_u + guidance (l_c - l_u), where the model
  // scores l_c after the prompt and l_u after the prompt without its class. 1: l_c alone.
  double guidance = 1.0;

  bool is_guided() const { return guidance != 1.0; }
  SamplingParams params() const { return {temperature, top_k, top_p, first_row, greedy}; }
};

// The tokens of each row of a batch.
using TokenRows = std::vector<std::vector<int32_t>>;
// Gets the tokens of a position and says whether to continue.
using TokenCallback = std::function<bool(const std::vector<int32_t>& tokens)>;

// For each row: reads `prompt[row]` (at least one token, all rows of one length), then samples
// `count` tokens. An unbounded model (Model::is_unbounded) continues from its state past its
// length, others from the last half of their length, read again, so that a token costs O(1)
// whatever the count. `on_tokens`, where given, gets each position's tokens in order; on a GPU they
// arrive up to 64 positions late. Once it returns false, the rows end with these tokens.
// *not_captured, where given, receives the reason why a GPU could not capture a position's work;
// empty: it could.
// Errors: guidance of a model that was trained without class dropout; with skip_blank, more tokens
// than an image has, and given ones that are no levels.
TokenRows sample_tokens(const Model& model, const SamplingOptions& options, const TokenRows& prompt,
                        int64_t count, const TokenCallback& on_tokens = {},
                        std::string* not_captured = nullptr);

// sample_tokens of a model that skips blank positions (nn/blank.h): the tokens of its parallel form, with the random
// numbers of their rows and positions. Error: more tokens than the model's length.
TokenRows sample_skipping(const Model& model, const SamplingOptions& options,
                          const TokenRows& prompt, int64_t count, const TokenCallback& on_tokens);

// Samples a token for each row of outputs, with the random numbers of rows from `first_row` on at this step.
// With guidance outputs are those of the rows with their classes, then of those without.
void sample_rows(const Model& model, const SamplingOptions& options, const Tensor& outputs,
                 int64_t first_row, int64_t step, const ops::Sampled& to);

}  // namespace linea
