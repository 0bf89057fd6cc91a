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

using Rows = std::vector<std::vector<int32_t>>;

constexpr int64_t kMinRowsPerStream = 128;  // fewer leave most of a GPU idle in a product

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

// Rows that are sampled by a stream of the device of their own. Their tokens stay on the device
// until the host reads the buffer. With guidance the model reads each row twice: all rows with
// their classes, then all without.
struct Stream {
  Stream(int64_t first_row, int64_t row_count, bool is_guided, const Tensor& token_buffer)
      : first(first_row), rows(row_count), guided(is_guided) {
    tokens = Tensor::zeros({rows * (guided ? 2 : 1)}, DType::i32);
    sampled.tokens = tokens.rows(0, rows);
    sampled.count = Tensor::zeros({rows}, DType::i32);
    sampled.token_buffer = token_buffer;
  }

  void start(const Model& model, const DecodeState* shared) {
    state = model.start(tokens.numel(), shared);
    sampled.positions = state.device_position.rows(0, rows);
  }

  // Reads column `position` of the rows.
  void read(const Rows& all, size_t position, const ModelConfig& config) const {
    std::vector<int32_t> column;
    for (int64_t row = first; row < first + rows; ++row)
      column.push_back(all[static_cast<size_t>(row)][position]);
    if (guided) column.insert(column.end(), column.begin(), column.end());
    if (guided && position == 0)
      std::fill(column.begin() + static_cast<std::ptrdiff_t>(rows), column.end(), config.no_class);
    ops::copy_into(token_tensor(column, tokens.shape(), config.input_vocab_size), tokens);
  }

  int64_t first, rows;
  bool guided;
  Tensor tokens;  // that the model reads
  DecodeState state;
  ops::Sampled sampled;  // its tokens and positions are the first of those and of the state's
};

// Tokens one after another from one state. Where the device can, it captures a position's work as a
// graph and replays it.
class Window {
 public:
  // Samples what follows a stream's outputs.
  using Sample = std::function<void(const Tensor& outputs, const Stream& stream)>;

  Window(const Model& model, int64_t rows, bool guided, Sample sample)
      : model_(model),
        sample_(std::move(sample)),
        capacity_(context().sizes.token_buffer),
        token_buffer_(Tensor::zeros({capacity_ * rows}, DType::i32)) {
    const int64_t max = model.is_step_capturable() ? context().sizes.streams : 1;
    const int64_t streams = std::clamp<int64_t>(rows / kMinRowsPerStream, 1, max);
    for (int64_t i = 0; i < streams; ++i) {
      const int64_t first = i * rows / streams, count = (i + 1) * rows / streams - first;
      streams_.emplace_back(
          first, count, guided,
          token_buffer_.rows(capacity_ * first, capacity_ * count).reshape({capacity_, count}));
    }
  }

  // Reads the tokens of `rows` from `first` on into new states, and samples what follows the last.
  void read(const Rows& rows, size_t first) {
    graph_recorder_.reset();
    for (Stream& stream : streams_) stream.state = {};  // frees its weights before the new ones
    for (Stream& stream : streams_) {
      const Stream& leader = streams_[0];
      stream.start(model_, &stream == &leader ? nullptr : &leader.state);
    }
    if (model_.is_step_capturable()) graph_recorder_ = make_graph_recorder();
    for (size_t position = first; position < rows[0].size(); ++position) {
      for (Stream& stream : streams_) {
        stream.read(rows, position, model_.config());
        model_.begin_position(stream.state);
      }
      decode_position(position + 1 == rows[0].size());
    }
    ++sampled_;
  }

  // Samples what follows the tokens that were sampled last.
  void advance() {
    for (Stream& stream : streams_) model_.count_position(stream.state);
    decode_position(true);
    ++sampled_;
  }

  bool full() const { return streams_[0].state.position >= model_.config().length; }
  bool is_asynchronous() const { return capacity_ > 1; }
  // Whether the token buffer is full.
  bool must_flush() const { return sampled_ - taken_ >= capacity_; }

  const std::string& refusal() const { return refusal_; }

  // The tokens of each position that was sampled since the last call, in order.
  Rows take() {
    Rows result(static_cast<size_t>(sampled_ - taken_));
    const std::vector<int32_t> buffer = token_buffer_.to_vector<int32_t>();
    for (const Stream& stream : streams_) {
      for (int64_t n = taken_; n < sampled_; ++n) {
        const auto begin = buffer.begin() + capacity_ * stream.first + n % capacity_ * stream.rows;
        Rows::value_type& tokens = result[static_cast<size_t>(n - taken_)];
        tokens.insert(tokens.end(), begin, begin + stream.rows);
      }
    }
    taken_ = sampled_;
    return result;
  }

 private:
  // All streams read the tokens that they hold and, if `samples`, replace them by those that
  // follow.
  void decode_position(bool samples) {
    const auto work = [&] {
      for (size_t i = 0; i < streams_.size(); ++i) {
        const auto work_of_stream = [&, &stream = streams_[i]] {
          const Tensor outputs = model_.decode(stream.state, stream.tokens);
          if (samples) sample_(outputs, stream);
        };
        if (graph_recorder_ != nullptr) {
          graph_recorder_->fork(i, work_of_stream);
        } else {
          work_of_stream();
        }
      }
    };
    if (graph_recorder_ != nullptr && graph_recorder_->run(samples ? 0 : 1, work)) return;
    if (graph_recorder_ != nullptr) refusal_ = graph_recorder_->refusal();
    graph_recorder_.reset();
    work();
  }

  const Model& model_;
  Sample sample_;
  int64_t capacity_;     // positions in the token buffer
  Tensor token_buffer_;  // of one stream after the other, so that one read fetches all
  std::vector<Stream> streams_;
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
  Window window(model_, static_cast<int64_t>(rows.size()), options_.is_guided(),
                [this](const Tensor& outputs, const Stream& stream) {
                  SamplingParams params = options_.params();
                  params.first_row += stream.first;
                  const RandomStream numbers{options_.seed, Purpose::sample, 0, 0};
                  const OutputHead& head = model_.output_head();
                  if (!stream.guided) return head.sample(outputs, params, numbers, stream.sampled);
                  const Tensor scores = guided_scores(head.scores(outputs), options_.guidance);
                  ops::sample(OutputKind::logits, scores, scores.size(1), params, numbers,
                              stream.sampled);
                  repeat_first_half(stream.tokens);
                  repeat_first_half(stream.state.device_position);
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
      window.read(rows, begin > length ? begin - length : 0);
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
