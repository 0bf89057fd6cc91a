#include "train/run/batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tensor/ops.h"
#include "train/run/rank_part.h"

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

namespace {

double count_scored(const Batch& batch) {
  return static_cast<double>(std::count_if(batch.targets.begin(), batch.targets.end(),
                                           [](int32_t token) { return token != kNotScored; }));
}

double count_keys(const Batch& batch) {
  if (batch.lengths.empty()) return static_cast<double>(batch.rows * batch.length);
  return std::accumulate(batch.lengths.begin(), batch.lengths.end(), 0.0);
}

// A part without a scored token has one whose share is 0, so that its backward pass, which the others wait
// for, has numbers to begin with.
BatchTensors tensors_of_part(const Task& task, const Batch& whole, SequencePart& part) {
  Batch own = positions_of(whole, part);
  const double scored = count_scored(own), keys = count_keys(own);
  if (scored == 0) own.targets.front() = 0;
  BatchTensors tensors = batch_tensors(task, own);
  tensors.scored_share = scored / count_scored(whole);
  tensors.key_share = keys / std::max(count_keys(whole), 1.0);
  take_batch(part, task, whole);
  return tensors;
}

}  // namespace

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
  if (part_ != nullptr) return tensors_of_part(task_, host_, *part_);
  BatchTensors batch = std::exchange(device_, {});
  return batch.inputs.defined() ? batch : batch_tensors(task_, host_);
}

}  // namespace linea
