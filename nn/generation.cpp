#include "nn/generation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/error.h"
#include "nn/blank_sampling.h"
#include "tensor/backend.h"
#include "tensor/ops.h"

namespace linea {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

// l_u + S (l_c - l_u), with the scores of the rows with their classes, then those without.
Tensor guided_scores(const Tensor& scores, double S) {
  const int64_t rows = scores.size(0) / 2;
  const Tensor all = ops::cast(scores, DType::f32);
  return ops::add(ops::scale(all.rows(0, rows), S), ops::scale(all.rows(rows, rows), 1 - S));
}

// Copies the first half of x to the second.
void repeat_first_half(const Tensor& x) {
  const int64_t half = x.numel() / 2;
  ops::copy_into(x.rows(0, half), x.rows(half, half));
}

// The rows of a batch. Their tokens stay on the device until the host reads the buffer. With
// guidance the model reads each row twice: all rows with their classes, then all without.
struct SampledRows {
  SampledRows(int64_t row_count, bool is_guided, const Tensor& token_buffer)
      : rows(row_count), guided(is_guided) {
    tokens = Tensor::zeros({rows * (guided ? 2 : 1)}, DType::i32);
    sampled.tokens = tokens.rows(0, rows);
    sampled.count = Tensor::zeros({rows}, DType::i32);
    sampled.token_buffer = token_buffer;
  }

  void start(const Model& model) {
    state = {};  // frees its weights before the new ones
    state = model.start(tokens.numel());
    sampled.positions = state.device_position.rows(0, rows);
  }

  // Reads column `position` of the rows.
  void read(const Rows& all, size_t position, const ModelConfig& config) const {
    std::vector<int32_t> column;
    for (const std::vector<int32_t>& row : all) column.push_back(row[position]);
    if (guided) column.insert(column.end(), column.begin(), column.end());
    if (guided && position == 0)
      std::fill(column.begin() + static_cast<std::ptrdiff_t>(rows), column.end(), config.no_class);
    ops::copy_into(token_tensor(column, tokens.shape(), config.input_vocab_size), tokens);
  }

  int64_t rows;
  bool guided;
  Tensor tokens;  // that the model reads
  DecodeState state;
  ops::Sampled sampled;  // its tokens and positions are the first of those and of the state's
};

// Tokens one after another from one state. Where the device can, it captures a position's work as a
// graph and replays it.
class Window {
 public:
  // Samples what follows the outputs.
  using Sample = std::function<void(const Tensor& outputs, const SampledRows& rows)>;

  Window(const Model& model, int64_t rows, bool guided, Sample sample)
      : model_(model),
        sample_(std::move(sample)),
        capacity_(context().sizes.token_buffer),
        token_buffer_(Tensor::zeros({capacity_, rows}, DType::i32)),
        rows_(rows, guided, token_buffer_) {}

  // Reads the tokens of `rows` from `first` on into new states, and samples what follows the last.
  void read(const Rows& rows, size_t first) {
    graph_recorder_.reset();
    rows_.start(model_);
    if (model_.is_step_capturable()) graph_recorder_ = make_graph_recorder();
    for (size_t position = first; position < rows[0].size(); ++position) {
      rows_.read(rows, position, model_.config());
      model_.begin_position(rows_.state);
      decode_position(position + 1 == rows[0].size());
    }
    ++sampled_;
  }

  // Samples what follows the tokens that were sampled last.
  void advance() {
    model_.count_position(rows_.state);
    decode_position(true);
    ++sampled_;
  }

  bool full() const {
    return rows_.state.position >= model_.config().length && !model_.is_unbounded();
  }
  bool is_asynchronous() const { return capacity_ > 1; }
  // Whether the token buffer is full.
  bool must_flush() const { return sampled_ - taken_ >= capacity_; }

  const std::string& refusal() const { return refusal_; }

  // The tokens of each position that was sampled since the last call, in order.
  Rows take() {
    Rows result(static_cast<size_t>(sampled_ - taken_));
    const std::vector<int32_t> buffer = token_buffer_.to_vector<int32_t>();
    for (std::vector<int32_t>& tokens : result) {
      const auto begin = buffer.begin() + taken_++ % capacity_ * rows_.rows;
      tokens.assign(begin, begin + rows_.rows);
    }
    return result;
  }

 private:
  // The model reads the tokens that the rows hold and, if `samples`, replaces them by those that
  // follow.
  void decode_position(bool samples) {
    const auto work = [&] {
      const Tensor outputs = model_.decode(rows_.state, rows_.tokens);
      if (samples) sample_(outputs, rows_);
    };
    if (graph_recorder_ != nullptr && graph_recorder_->run(samples ? 0 : 1, work)) return;
    if (graph_recorder_ != nullptr) refusal_ = graph_recorder_->refusal();
    graph_recorder_.reset();
    work();
  }

  const Model& model_;
  Sample sample_;
  int64_t capacity_;     // positions in the token buffer
  Tensor token_buffer_;  // [capacity, rows]
  SampledRows rows_;
  int64_t sampled_ = 0, taken_ = 0;
  std::unique_ptr<GraphRecorder> graph_recorder_;
  std::string refusal_;  // why the recorder could not capture
};

void check_guidance(const Model& model, double guidance) {
  require(std::isfinite(guidance) && guidance >= 0,
          "`guidance` is {}; it must be at least 0 (1: off)", guidance);
  require(guidance == 1 || model.config().no_class >= 0,
          "`guidance` {} needs a model that was trained with `class_dropout`; leave it out",
          guidance);
}

// The host reads the tokens of positions 1, 2, 4, 8, ..., so that the first ones show early.
bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

}  // namespace

std::vector<std::vector<int32_t>> Generator::sample(const std::vector<std::vector<int32_t>>& prompt,
                                                    int64_t count, const TokenCallback& on_tokens,
                                                    std::string* not_captured) const {
  require(!prompt.empty() && !prompt[0].empty(), "sampling needs at least one token to start from");
  for (const auto& row : prompt)
    require(row.size() == prompt[0].size(), "prompts of {} and {} tokens cannot form one batch",
            prompt[0].size(), row.size());
  const size_t length = static_cast<size_t>(model_.config().length), begin = prompt[0].size();
  Rows rows = prompt;
  check_guidance(model_, options_.guidance);
  if (model_.config().skip_blank)
    return sample_skipping(model_, options_, prompt, count, on_tokens);
  Window window(model_, static_cast<int64_t>(rows.size()), options_.is_guided(),
                [this](const Tensor& outputs, const SampledRows& sampled_rows) {
                  const SamplingParams params = options_.params();
                  const RandomStream numbers{options_.seed, Purpose::sample, 0, 0};
                  const OutputHead& head = model_.output_head();
                  if (!sampled_rows.guided)
                    return head.sample(outputs, params, numbers, sampled_rows.sampled);
                  const Tensor scores = guided_scores(head.scores(outputs), options_.guidance);
                  ops::sample(OutputKind::logits, scores, scores.size(1), params, numbers,
                              sampled_rows.sampled);
                  repeat_first_half(sampled_rows.tokens);
                  repeat_first_half(sampled_rows.state.device_position);
                });
  Rows taken;  // from the window, not yet appended to the rows
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
      window.read(rows, begin > length && !model_.is_unbounded() ? begin - length : 0);
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
