#include "train/run/batches.h"

#include <utility>

#include "tensor/ops.h"

namespace linea {

BatchTensors batch_tensors(const Task& task, const Batch& batch) {
  const Shape shape{batch.rows, batch.length};
  BatchTensors tensors{token_tensor(batch.inputs, shape, task.input_vocab_size()),
                       Tensor::from(batch.targets, shape), Tensor(), Tensor()};
  if (!batch.second_inputs.empty())
    tensors.second_inputs =
        token_tensor(batch.second_inputs, shape, task.shape().second_vocab_size);
  if (!batch.lengths.empty()) tensors.valid = Tensor::from(batch.lengths, {batch.rows});
  return tensors;
}

void TrainingBatches::load(int64_t first_example, int64_t rows) {
  if (first_ == first_example && rows_ == rows) return;
  host_ = task_.train_rows(static_cast<uint64_t>(config_.seed),
                           static_cast<uint64_t>(first_example), rows);
  first_ = first_example;
  rows_ = rows;
  device_ = {};
}

void TrainingBatches::prefetch(int64_t first_example, int64_t rows) {
  load(first_example, rows);
  device_ = batch_tensors(task_, host_);
}

BatchTensors TrainingBatches::take(int64_t first_example, int64_t rows) {
  load(first_example, rows);
  BatchTensors batch = std::exchange(device_, {});
  return batch.inputs.defined() ? batch : batch_tensors(task_, host_);
}

}  // namespace linea
