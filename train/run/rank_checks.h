// What all ranks of a run must have in common: settings, program and data at its start, weights
// from then on.
#pragma once

#include <string>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "nn/weight_average.h"
#include "parallel/ranks.h"
#include "train/config.h"

namespace linea {

// Error: ErrorKind::usage naming the setting, or the part of the program, that differs from rank
// 0's. `data` and `threads` may differ.
void refuse_other_settings(Ranks& ranks, const RunConfig& config);
// Error: ErrorKind::input, another fingerprint or vocabulary than rank 0's.
void refuse_other_data(Ranks& ranks, const std::string& fingerprint, const std::string& vocabulary);

// Copies from rank 0 to all: weights, buffers, moments and, where it is not null, the average.
void share_state(Ranks& ranks, Model& model, Optimizer& optimizer, WeightAverage* average);

// Compares hashes of all weights, buffers and moments.
class SameWeights {
 public:
  SameWeights(Ranks& ranks, const Model& model, const Optimizer& optimizer)
      : ranks_(ranks), model_(model), optimizer_(optimizer) {}
  // After `step` steps. Error: ErrorKind::ranks naming the rank, the first tensor, and the last
  // step at which all were alike.
  void check(int64_t step);

 private:
  Ranks& ranks_;
  const Model& model_;
  const Optimizer& optimizer_;
  int64_t same_at_ = 0;
};

}  // namespace linea
