// Batches on the device.
#pragma once

#include <cstdint>

#include "autograd/sequence_part.h"
#include "data/tasks/task.h"
#include "nn/model.h"
#include "tensor/tensor.h"
#include "train/config.h"

namespace linea {

// A batch on the device, i32 [rows,length] each; second_inputs is undefined for a task without a
// second input stream. valid: Batch::lengths, i32 [rows], undefined where it is empty.
struct BatchTensors {
  Tensor inputs, targets, second_inputs, valid{};
  // What a part of the positions has of the rows' scored tokens and of their keys.
  double scored_share = 1, key_share = 1;
  ModelInputs model_inputs() const { return {inputs, second_inputs, valid}; }
};
// Error: ErrorKind::usage for a token outside the task's vocabulary.
BatchTensors batch_tensors(const Task& task, const Batch& batch);

// The training batches of a run by their examples, with one prefetched: built on the host and
// copied to the device while the device computes. Keeps references.
class TrainingBatches {
 public:
  TrainingBatches(const Task& task, const RunConfig& config) : task_(task), config_(config) {}
  // Batches of a part of the positions from now on; null: of all.
  void cut_for(SequencePart* part) { part_ = part; }
  void prefetch(int64_t first_example, int64_t rows);
  BatchTensors take(int64_t first_example, int64_t rows);

 private:
  void load(int64_t first_example, int64_t rows);

  const Task& task_;
  const RunConfig& config_;
  SequencePart* part_ = nullptr;
  int64_t first_ = -1, rows_ = 0;  // of the batch below
  Batch host_;
  BatchTensors device_;  // undefined until prefetched, and once taken
};

}  // namespace linea
