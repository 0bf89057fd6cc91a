#include "train/evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "tensor/ops.h"
#include "train/run/batches.h"
#include "train/run/rank_part.h"
#include "train/run/signals.h"

namespace linea {
namespace {

constexpr int64_t kMaxTokens = 16384, kCarriedTokens = 4096;  // at a time

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

namespace {

// Sums over rows, numbers that ranks add.
struct Sums {
  double loss = 0, correct = 0, bytes = 0, tokens = 0;
  double interrupted = 0;       // ranks that ended early
  std::vector<double> classes;  // how often each is the answer
  // Stretch 0 is row 0; stretch s > 0 is the rows [2^(s-1), 2^s).
  std::vector<double> stretch_loss = std::vector<double>(64),
                      stretch_tokens = std::vector<double>(64);

  void add_over(Ranks& ranks) {
    const auto numbers = {&loss, &correct, &bytes, &tokens, &interrupted};
    const auto lists = {&classes, &stretch_loss, &stretch_tokens};
    std::vector<double> all;
    for (const double* number : numbers) all.push_back(*number);
    for (const auto* list : lists) all.insert(all.end(), list->begin(), list->end());
    ranks.sum(all, "the evaluation");
    auto next = all.begin();
    for (double* number : numbers) *number = *next++;
    for (auto* list : lists)
      for (double& number : *list) number = *next++;
  }
};

// The batch is the rows [first, end) of the evaluation.
void add_batch(const Model& model, const Task& task, const Batch& batch, int64_t first, int64_t end,
               Sums& sums) {
  const std::vector<int32_t>& token_bytes = task.shape().token_bytes;
  const BatchTensors tensors = batch_tensors(task, batch);
  const Tensor outputs = model.forward(tensors.model_inputs(), false).value();
  const std::vector<float> losses =
      model.output_head().losses(outputs, tensors.targets).to_vector<float>();
  const std::vector<int32_t> predicted = argmax_tokens(model.output_head(), outputs);
  for (size_t i = 0; i < losses.size(); ++i) {
    if (batch.targets[i] == kNotScored) continue;
    const auto target = static_cast<size_t>(batch.targets[i]);
    const auto row =
        static_cast<size_t>(first) + i * static_cast<size_t>(end - first) / losses.size();
    const auto stretch = static_cast<size_t>(std::bit_width(row));
    sums.stretch_loss[stretch] += losses[i];
    ++sums.stretch_tokens[stretch];
    sums.loss += losses[i];
    sums.correct += predicted[i] == batch.targets[i] ? 1 : 0;
    if (!token_bytes.empty()) sums.bytes += token_bytes[target];
    if (!sums.classes.empty()) ++sums.classes[target];
    ++sums.tokens;
  }
}

Score score_of(const Sums& sums, const Task& task, Split split, int64_t rows) {
  if (sums.tokens == 0)
    fail(ErrorKind::input, "the {} split has no scored token", split_name(split));
  Score score;
  score.tokens = static_cast<int64_t>(sums.tokens);
  score.loss = sums.loss / sums.tokens;
  score.bits = to_bits(score.loss);
  if (sums.bytes > 0) score.bits_per_byte = to_bits(sums.loss) / sums.bytes;
  score.accuracy = sums.correct / sums.tokens;
  for (const double count : sums.classes)
    score.majority = std::max(score.majority, count / sums.tokens);
  if (!is_text(task.shape()) || rows < task.rows(split)) return score;
  for (size_t s = 0; sums.stretch_tokens[s] > 0; ++s)
    score.stretches.push_back({static_cast<int64_t>(sums.stretch_tokens[s]),
                               sums.stretch_loss[s] / sums.stretch_tokens[s]});
  return score;
}

// What operations sent at the end of a part, in the order of their calls.
using CarriedStates = std::vector<Tensor>;

// A part that this process computes after the one before it.
class CarriedPart final : public SequencePart {
 public:
  CarriedPart(const CarriedStates& before, int64_t first, int64_t end)
      : SequencePart(first, end, std::numeric_limits<int64_t>::max()), before_(before) {}
  void receive(const Tensor& into, PartPass) override {
    if (!is_first()) ops::copy_into(before_.at(next_++), into);
  }
  void hand_on(const Tensor& from, PartPass) override { at_end_.push_back(from.clone()); }
  const CarriedStates& states_at_end() const { return at_end_; }

 private:
  const CarriedStates& before_;
  CarriedStates at_end_;
  size_t next_ = 0;
};

}  // namespace

Score evaluate(const Model& model, const Task& task, Split split, int64_t batch_rows,
               int64_t max_rows, const std::function<void(int64_t, int64_t)>& progress,
               Ranks* ranks, int64_t sequence_ranks) {
  const NoGrad no_grad;
  Ranks alone;
  if (ranks == nullptr) ranks = &alone;
  const int64_t all = task.rows(split), rows = max_rows > 0 ? std::min(max_rows, all) : all;
  const RankCut cut = cut_of(ranks, sequence_ranks);
  const Share own = share_of(rows, cut.group, cut.groups);
  const std::unique_ptr<SequencePart> part = make_part(ranks, cut, task.length());
  const int64_t batch_size = evaluation_rows(model, task, batch_rows);
  Sums sums;
  if (task.shape().answer_tokens > 0) sums.classes.resize(static_cast<size_t>(task.vocab_size()));
  for (int64_t first = own.first; first < own.end; first += batch_size) {
    const int64_t end = std::min(first + batch_size, own.end);
    const Batch batch = evaluation_batch(task, split, first, end - first, rows);
    const UseSequencePart use(part.get());
    if (part != nullptr) take_batch(*part, task, batch);
    add_batch(model, task, part == nullptr ? batch : positions_of(batch, *part), first, end, sums);
    try {
      if (progress) progress(end - own.first, own.count());
    } catch (const Interrupted&) {
      if (ranks->alone()) throw;
      sums.interrupted = 1;
      if (part == nullptr) break;  // else others wait for the rest
    }
  }
  sums.add_over(*ranks);
  if (sums.interrupted > 0) throw Interrupted();
  return score_of(sums, task, split, rows);
}

Score evaluate_carried(const Model& model, const Task& task, Split split,
                       const std::function<void(int64_t, int64_t)>& progress) {
  const NoGrad no_grad;
  require(is_text(task.shape()),
          "a state is carried through the tokens of a text, and this is none");
  const auto takes_parts = [](const auto& attention) { return attention->traits().takes_parts; };
  require(model.is_unbounded() &&
              std::all_of(model.attentions().begin(), model.attentions().end(), takes_parts),
          "a state is carried by models without positions whose attentions are sums over keys: "
          "linear, performer, soft-vq, vq, gdn, ssd, retnet, gla, kda or average; train one with "
          "--positions none, or evaluate windows");
  const int64_t rows = task.rows(split), N = task.length(),
                together = std::max<int64_t>(1, kCarriedTokens / N);
  CarriedStates states;
  Sums sums;
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t end = std::min(first + together, rows);
    Batch batch = task.eval_batch(split, first, end - first);  // the rows follow one another
    batch.length *= std::exchange(batch.rows, 1);
    CarriedPart part(states, first * N, end * N);
    const UseSequencePart use(&part);
    add_batch(model, task, batch, first, end, sums);
    states = part.states_at_end();
    if (progress) progress(end, rows);
  }
  return score_of(sums, task, split, rows);
}

}  // namespace linea
