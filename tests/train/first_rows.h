// The first rows of a task's splits, as if there were no more; notes which are asked for.
#pragma once

#include <vector>

#include "data/tasks/task.h"

namespace linea {

class FirstRows : public Task {
 public:
  FirstRows(const Task& task, int64_t rows) : Task(task.shape()), task_(task), rows_(rows) {}
  Batch train_rows(uint64_t seed, uint64_t first, int64_t rows) const override {
    return task_.train_rows(seed, first, rows);
  }
  int64_t rows(Split) const override { return rows_; }
  Batch eval_batch(Split split, int64_t first, int64_t rows) const override {
    for (int64_t row = first; row < first + rows; ++row) asked.push_back(row);
    return task_.eval_batch(split, first, rows);
  }
  mutable std::vector<int64_t> asked;

 private:
  const Task& task_;
  int64_t rows_;
};

}  // namespace linea
