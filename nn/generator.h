// Drawing sequences from a model by its recurrent form, all of a batch side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/transformer.h"
#include "tensor/kernels.h"

namespace linea {

struct SamplingOptions {
  double temperature = 1.0;
  bool greedy = false;  // the likeliest token always
  uint64_t seed = 1;
  int64_t top_k = 0;  // as in SamplingParams
  double top_p = 1.0;
  int64_t first_row =
      0;  // the number of the first row: a row of one number draws the same wherever it stands

  SamplingParams params() const { return {temperature, top_k, top_p, first_row, greedy}; }
};

class Generator {
 public:
  Generator(const Transformer& model, const SamplingOptions& options)
      : model_(model), options_(options) {}

  // For each row: reads `prompt[row]` (at least one token, all rows of one length), then draws
  // `count` tokens. Past the model's length it goes on from the last half of its length, read
  // again, so that a token costs O(1) whatever the count. `drawn`, where given, sees each
  // position's tokens in order, on a GPU up to 64 positions at a time, after the next were asked
  // for. `not_captured`, where given, is told why such a device could not record a position's work;
  // empty: it could.
  using Watcher = std::function<void(const std::vector<int32_t>& tokens)>;
  std::vector<std::vector<int32_t>> sample(const std::vector<std::vector<int32_t>>& prompt,
                                           int64_t count, const Watcher& sampled = {},
                                           std::string* not_captured = nullptr) const;

 private:
  const Transformer& model_;
  SamplingOptions options_;
};

}  // namespace linea
