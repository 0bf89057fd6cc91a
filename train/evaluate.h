// How good a model is: the one place where losses become bits.
#pragma once

#include "data/tasks/task.h"
#include "nn/model.h"

namespace linea {

struct Score {
  double loss = 0;      // nats a scored token
  double bits = 0;      // bits/dim of images, bits/char of text: loss / ln 2
  double accuracy = 0;  // share of scored positions whose likeliest token is right
  int64_t tokens = 0;   // scored positions
};

double bits_of(double nats);
// What a token's bits are called.
inline const char* bits_name(const TaskShape& shape) {
  if (shape.side > 0) return "bits/dim";
  return shape.second_vocab_size > 0 ? "bits" : "bits/char";
}

// A batch where the device reads it, i32 [rows,length] each; second_inputs is undefined where the
// task has none.
struct BatchTensors {
  Tensor inputs, targets, second_inputs;
};
// Error: ErrorKind::usage where a token is none of the task's.
BatchTensors batch_tensors(const Task& task, const Batch& batch);

// How many rows evaluate() takes at once, so that it holds no more than training with batches of
// `batch` rows: as many, or as many as fit where the gradients would be, whichever is more, up to
// 16384 tokens; at least 1.
int64_t evaluation_rows(const Model& model, const Task& task, int64_t batch);

// Over `max_rows` rows of a split, the same each time and evenly spread, for images may lie class
// by class (0, or more than there are: all), by the parallel form, without dropout. `batch`: the
// rows of a training batch. `progress`, where given, hears how many rows of how many are done.
Score evaluate(const Model& model, const Task& task, Split split, int64_t batch,
               int64_t max_rows = 0, const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace linea
