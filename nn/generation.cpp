#include "nn/generation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/error.h"
#include "tensor/backend.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// Copies the first half of x to the second.
void repeat_first_half(const Tensor& x) {
  const int64_t half = x.numel() / 2;
  ops::copy_into(x.rows(0, half), x.rows(half, half));
}

// The rows of a batch, whose tokens follow one after another from one state. They stay on the device until
// the host reads the token buffer. With guidance the model reads each row twice: all rows with their
// classes, then all without. Where the device can, it captures a position's work as a graph and
// replays it.
class Window {
 public:
  Window(const Model& model, const SamplingOptions& options, int64_t rows)
      : model_(model), options_(options), rows_(rows), capacity_(context().sizes.token_buffer) {
    tokens_ = Tensor::zeros({rows * (options.is_guided() ? 2 : 1)}, DType::i32);
    to_.tokens = tokens_.rows(0, rows);
    to_.count = Tensor::zeros({rows}, DType::i32);
    to_.token_buffer = Tensor::zeros({capacity_, rows}, DType::i32);
  }

  // Reads the tokens of `rows` from `first` on into new states, and samples what follows the last.
  void read(const TokenRows& rows, size_t first) {
    graph_recorder_.reset();
    state_ = {};  // frees its weights before the new ones
    state_ = model_.start(tokens_.numel());
    to_.positions = state_.device_position.rows(0, rows_);
    if (model_.is_step_capturable()) graph_recorder_ = make_graph_recorder();
    for (size_t position = first; position < rows[0].size(); ++position) {
      read_column(rows, position);
      model_.begin_position(state_);
      decode_position(position + 1 == rows[0].size());
    }
    ++sampled_;
  }

  // Samples what follows the tokens that were sampled last.
  void advance() {
    model_.count_position(state_);
    decode_position(true);
    ++sampled_;
  }

  bool full() const { return state_.position >= model_.config().length && !model_.is_unbounded(); }
  bool is_asynchronous() const { return capacity_ > 1; }
  // Whether the token buffer is full.
  bool must_flush() const { return sampled_ - taken_ >= capacity_; }

  const std::string& refusal() const { return refusal_; }

  // The tokens of each position that was sampled since the last call, in order.
  TokenRows take() {
    TokenRows result(static_cast<size_t>(sampled_ - taken_));
    const std::vector<int32_t> buffer = to_.token_buffer.to_vector<int32_t>();
    for (std::vector<int32_t>& tokens : result) {
      const auto begin = buffer.begin() + taken_++ % capacity_ * rows_;
      tokens.assign(begin, begin + rows_);
    }
    return result;
  }

 private:
  void read_column(const TokenRows& rows, size_t position) const {
    std::vector<int32_t> column;
    for (const std::vector<int32_t>& row : rows) column.push_back(row[position]);
    if (options_.is_guided()) {
      column.insert(column.end(), column.begin(), column.end());
      if (position == 0) std::fill(column.begin() + rows_, column.end(), model_.config().no_class);
    }
    ops::copy_into(token_tensor(column, tokens_.shape(), model_.config().input_vocab_size),
                   tokens_);
  }

  // The model reads the tokens that the rows hold and, if `samples`, replaces them by those that
  // follow.
  void decode_position(bool samples) {
    const auto work = [&] {
      const Tensor outputs = model_.decode(state_, tokens_);
      if (!samples) return;
      sample_rows(model_, options_, outputs, 0, 0, to_);
      if (!options_.is_guided()) return;
      repeat_first_half(tokens_);
      repeat_first_half(state_.device_position);
    };
    if (graph_recorder_ != nullptr && graph_recorder_->run(samples ? 0 : 1, work)) return;
    if (graph_recorder_ != nullptr) refusal_ = graph_recorder_->refusal();
    graph_recorder_.reset();
    work();
  }

  const Model& model_;
  const SamplingOptions& options_;
  int64_t rows_, capacity_;  // positions in the token buffer
  Tensor tokens_;            // that the model reads
  DecodeState state_;
  ops::Sampled to_;  // its tokens and positions are the first of those and of the state's
  int64_t sampled_ = 0, taken_ = 0;
  std::unique_ptr<GraphRecorder> graph_recorder_;
  std::string refusal_;  // why the recorder could not capture
};

// The host reads the tokens of positions 1, 2, 4, 8, ..., so that the first ones show early.
bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

}  // namespace

void sample_rows(const Model& model, const SamplingOptions& options, const Tensor& outputs,
                 int64_t first_row, int64_t step, const ops::Sampled& to) {
  SamplingParams params = options.params();
  params.first_row += first_row;
  const RandomStream numbers{options.seed, Purpose::sample, 0, static_cast<uint64_t>(step)};
  const OutputHead& head = model.output_head();
  if (!options.is_guided()) return head.sample(outputs, params, numbers, to);
  const int64_t rows = outputs.size(0) / 2;
  const double S = options.guidance;
  const Tensor all = ops::cast(head.scores(outputs), DType::f32),
               guided = ops::add(ops::scale(all.rows(0, rows), S),
                                 ops::scale(all.rows(rows, rows), 1 - S));
  ops::sample(OutputKind::logits, guided, guided.size(1), params, numbers, to);
}

TokenRows sample_tokens(const Model& model, const SamplingOptions& options, const TokenRows& prompt,
                        int64_t count, const TokenCallback& on_tokens, std::string* not_captured) {
  require(!prompt.empty() && !prompt[0].empty(), "sampling needs at least one token to start from");
  for (const auto& row : prompt)
    require(row.size() == prompt[0].size(), "prompts of {} and {} tokens cannot form one batch",
            prompt[0].size(), row.size());
  const size_t length = static_cast<size_t>(model.config().length), begin = prompt[0].size();
  TokenRows rows = prompt;
  require(std::isfinite(options.guidance) && options.guidance >= 0,
          "`guidance` is {}; it must be at least 0 (1: off)", options.guidance);
  require(!options.is_guided() || model.config().no_class >= 0,
          "`guidance` {} needs a model that was trained with `class_dropout`; leave it out",
          options.guidance);
  if (model.config().skip_blank) return sample_skipping(model, options, prompt, count, on_tokens);
  Window window(model, options, static_cast<int64_t>(rows.size()));
  TokenRows taken;  // from the window, not yet appended to the rows
  bool continues = true;
  const auto append_taken = [&] {
    for (const std::vector<int32_t>& next : std::exchange(taken, {})) {
      if (!continues) return;
      for (size_t row = 0; row < rows.size(); ++row) rows[row].push_back(next[row]);
      continues = !on_tokens || on_tokens(next);
    }
  };
  for (int64_t position = 0; position < count && continues; ++position) {
    if (position == 0) {
      window.read(rows, begin > length && !model.is_unbounded() ? begin - length : 0);
    } else if (window.full()) {
      window.read(rows, rows[0].size() - std::max<size_t>(1, length / 2));
    } else {
      window.advance();
    }
    const bool must_read = window.full() || position + 1 == count;
    if (!is_power_of_two(position + 1) && !window.must_flush() && !must_read) continue;
    append_taken();  // while the device computes
    const bool overlaps = window.must_flush() && window.is_asynchronous() && !must_read;
    taken = window.take();
    if (!overlaps) append_taken();
  }
  if (not_captured != nullptr) *not_captured = window.refusal();
  for (auto& row : rows) row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(begin));
  return rows;
}

}  // namespace linea
