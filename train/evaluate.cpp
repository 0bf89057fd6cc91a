#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "tensor/ops.h"

namespace linea {
namespace {

constexpr int64_t kTokensAtOnce = 16384;

void append(const std::vector<int32_t>& tokens, std::vector<int32_t>& all) {
  all.insert(all.end(), tokens.begin(), tokens.end());
}

// Of outputs [B,N,...]. A sequence at a time: a head may have many scores for few outputs.
std::vector<int32_t> likeliest_tokens(const OutputHead& head, const Tensor& outputs) {
  std::vector<int32_t> all;
  for (int64_t row = 0; row < outputs.size(0); ++row) {
    append(ops::argmax(head.scores(outputs.rows(row, 1))).to_vector<int32_t>(), all);
  }
  return all;
}

// Those number `first` to `first` + `count` of the `looked_at` rows of a split that evaluate()
// takes: number i is row floor(i * all / looked_at).
Batch rows_of_look(const Task& task, Split split, int64_t first, int64_t count, int64_t looked_at) {
  const int64_t all = task.rows(split);
  if (looked_at == all) return task.eval_batch(split, first, count);
  Batch batch;
  for (int64_t number = first; number < first + count; ++number) {
    const Batch row = task.eval_batch(split, number * all / looked_at, 1);
    batch.rows += row.rows;
    batch.length = row.length;
    append(row.inputs, batch.inputs);
    append(row.targets, batch.targets);
    append(row.second_inputs, batch.second_inputs);
  }
  return batch;
}

}  // namespace

BatchTensors batch_tensors(const Task& task, const Batch& batch) {
  const Shape shape{batch.rows, batch.length};
  BatchTensors tensors{token_tensor(batch.inputs, shape, task.input_vocab_size()),
                       Tensor::from(batch.targets, shape), Tensor()};
  if (!batch.second_inputs.empty())
    tensors.second_inputs =
        token_tensor(batch.second_inputs, shape, task.shape().second_vocab_size);
  return tensors;
}

double bits_of(double nats) { return nats / std::log(2.0); }

// Without a tape a block holds its input, what its norm makes of it, q, k, v and what is mixed of
// them, or the hidden layer instead of these; the head its outputs, and scores of a sequence at a
// time. Twice that: blocks of memory are rounded up, and ops have workspace.
int64_t evaluation_rows(const Model& model, const Task& task, int64_t batch) {
  const ModelConfig& config = model.config();
  const int64_t of_token =
      2 * config.dim + std::max(5 * config.dim, 2 * config.ffn) + 2 * model.output_head().outputs();
  const int64_t fitting = count_elements(model.parameters()) / (2 * of_token * task.length());
  return std::max<int64_t>(1, std::min(std::max(batch, fitting), kTokensAtOnce / task.length()));
}

Score evaluate(const Model& model, const Task& task, Split split, int64_t batch_rows,
               int64_t max_rows, const std::function<void(int64_t, int64_t)>& progress) {
  const NoGrad no_grad;
  const int64_t all = task.rows(split), rows = max_rows > 0 ? std::min(max_rows, all) : all;
  const int64_t at_once = evaluation_rows(model, task, batch_rows);
  Score score;
  double loss = 0;
  int64_t right = 0;
  for (int64_t first = 0; first < rows; first += at_once) {
    const Batch batch = rows_of_look(task, split, first, std::min(at_once, rows - first), rows);
    const BatchTensors tensors = batch_tensors(task, batch);
    const Tensor outputs = model.forward(tensors.inputs, false, tensors.second_inputs).value();
    const std::vector<float> losses =
        model.output_head().losses(outputs, tensors.targets).to_vector<float>();
    const std::vector<int32_t> likeliest = likeliest_tokens(model.output_head(), outputs);
    for (size_t i = 0; i < losses.size(); ++i) {
      if (batch.targets[i] == kNotScored) continue;
      loss += losses[i];
      right += likeliest[i] == batch.targets[i] ? 1 : 0;
      ++score.tokens;
    }
    if (progress) progress(std::min(first + at_once, rows), rows);
  }
  if (score.tokens == 0)
    fail(ErrorKind::input, "the {} split has no scored token", split_name(split));
  score.loss = loss / static_cast<double>(score.tokens);
  score.bits = bits_of(score.loss);
  score.accuracy = static_cast<double>(right) / static_cast<double>(score.tokens);
  return score;
}

}  // namespace linea
