#include "train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tensor/ops.h"
#include "train/run/batches.h"

namespace linea {
namespace {

constexpr int64_t kMaxTokens = 16384;

void append(const std::vector<int32_t>& tokens, std::vector<int32_t>& all) {
  all.insert(all.end(), tokens.begin(), tokens.end());
}

// The most likely token at each position of outputs [B,N,...]. One sequence at a time: a head may
// have many scores for few outputs.
std::vector<int32_t> argmax_tokens(const OutputHead& head, const Tensor& outputs) {
  std::vector<int32_t> all;
  for (int64_t row = 0; row < outputs.size(0); ++row) {
    append(ops::argmax(head.scores(outputs.rows(row, 1))).to_vector<int32_t>(), all);
  }
  return all;
}

// Rows [first, first + count) of an evaluation over `evaluated` evenly spaced rows of a split: row
// i of the evaluation is row floor(i * all / evaluated) of the split.
Batch evaluation_batch(const Task& task, Split split, int64_t first, int64_t count,
                       int64_t evaluated) {
  const int64_t all = task.rows(split);
  if (evaluated == all) return task.eval_batch(split, first, count);
  Batch batch;
  for (int64_t number = first; number < first + count; ++number) {
    const Batch row = task.eval_batch(split, number * all / evaluated, 1);
    batch.rows += row.rows;
    batch.length = row.length;
    append(row.inputs, batch.inputs);
    append(row.targets, batch.targets);
    append(row.second_inputs, batch.second_inputs);
    append(row.lengths, batch.lengths);
  }
  return batch;
}

}  // namespace

double to_bits(double nats) { return nats / std::log(2.0); }

// Without a tape a block holds its input, the normalized input, q, k, v and their mix, or the
// hidden layer instead of the latter four; the head holds its outputs, and the scores of one
// sequence at a time. Doubled, because memory blocks are rounded up and ops need workspace.
int64_t evaluation_rows(const Model& model, const Task& task, int64_t batch) {
  const ModelConfig& config = model.config();
  const int64_t per_token =
      2 * config.dim + std::max(5 * config.dim, 2 * config.ffn) + 2 * model.output_head().outputs();
  const int64_t fitting = count_elements(model.parameters()) / (2 * per_token * task.length());
  return std::max<int64_t>(1, std::min(std::max(batch, fitting), kMaxTokens / task.length()));
}

Score evaluate(const Model& model, const Task& task, Split split, int64_t batch_rows,
               int64_t max_rows, const std::function<void(int64_t, int64_t)>& progress) {
  const NoGrad no_grad;
  const int64_t all = task.rows(split), rows = max_rows > 0 ? std::min(max_rows, all) : all;
  const int64_t batch_size = evaluation_rows(model, task, batch_rows);
  Score score;
  double loss = 0;
  int64_t correct = 0, bytes = 0;
  std::map<int32_t, int64_t> classes;  // how often each is the answer
  const std::vector<int32_t>& token_bytes = task.shape().token_bytes;
  for (int64_t first = 0; first < rows; first += batch_size) {
    const Batch batch =
        evaluation_batch(task, split, first, std::min(batch_size, rows - first), rows);
    const BatchTensors tensors = batch_tensors(task, batch);
    const Tensor outputs = model.forward(tensors.model_inputs(), false).value();
    const std::vector<float> losses =
        model.output_head().losses(outputs, tensors.targets).to_vector<float>();
    const std::vector<int32_t> predicted = argmax_tokens(model.output_head(), outputs);
    for (size_t i = 0; i < losses.size(); ++i) {
      if (batch.targets[i] == kNotScored) continue;
      loss += losses[i];
      correct += predicted[i] == batch.targets[i] ? 1 : 0;
      if (!token_bytes.empty()) bytes += token_bytes[static_cast<size_t>(batch.targets[i])];
      if (task.shape().answer_tokens > 0) ++classes[batch.targets[i]];
      ++score.tokens;
    }
    if (progress) progress(std::min(first + batch_size, rows), rows);
  }
  if (score.tokens == 0)
    fail(ErrorKind::input, "the {} split has no scored token", split_name(split));
  score.loss = loss / static_cast<double>(score.tokens);
  score.bits = to_bits(score.loss);
  if (bytes > 0) score.bits_per_byte = to_bits(loss) / static_cast<double>(bytes);
  score.accuracy = static_cast<double>(correct) / static_cast<double>(score.tokens);
  for (const auto& [answer, count] : classes)
    score.majority =
        std::max(score.majority, static_cast<double>(count) / static_cast<double>(score.tokens));
  return score;
}

}  // namespace linea
