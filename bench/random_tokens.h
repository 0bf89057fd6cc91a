// Random tokens, for measurements of training steps.
#pragma once

#include "data/tasks/task.h"

namespace linea::bench {

// Each token is the target of the one before it; where the shape has answer tokens, the class that
// follows the others is. A second stream has tokens of its own. Only for training.
class RandomTokens : public Task {
 public:
  explicit RandomTokens(const TaskShape& shape) : Task(shape) {}
  Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const override;
  bool has(Split split) const override { return split == Split::train; }
  int64_t rows(Split) const override { return 0; }
  Batch eval_batch(Split split, int64_t, int64_t) const override;
};

}  // namespace linea::bench
