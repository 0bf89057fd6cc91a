#include "nn/generator.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "tensor/error.h"
#include "tensor/ops.h"

namespace linea {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

constexpr int64_t kFewestInPart = 128;  // rows: with fewer a product leaves most of a GPU idle

// Column `place` of `count` rows from `first` on.
Tensor column(const Rows& rows, int64_t first, int64_t count, size_t place, int64_t vocab_size) {
  std::vector<int32_t> tokens;
  for (int64_t row = first; row < first + count; ++row)
    tokens.push_back(rows[static_cast<size_t>(row)][place]);
  return token_tensor(tokens, {count}, vocab_size);
}

// Rows that are drawn on their own, beside others. What is drawn stays on the device until the host
// asks for it.
struct Part {
  Part(int64_t first_row, int64_t row_count, const Tensor& token_buffer)
      : first(first_row), rows(row_count) {
    sampled.tokens = Tensor::zeros({rows}, DType::i32);
    sampled.count = Tensor::zeros({rows}, DType::i32);
    sampled.token_buffer = token_buffer;
  }

  int64_t first, rows;
  DecodeState state;
  ops::Sampled sampled;  // its place is the state's
};

// Tokens one after another from one state; a position's work is recorded where the device does
// that.
class Window {
 public:
  // Draws what follows a part's outputs.
  using Sample = std::function<void(const Tensor& outputs, const Part& part)>;

  Window(const Transformer& model, int64_t rows, Sample sample)
      : model_(model),
        sample_(std::move(sample)),
        capacity_(context().sizes.token_buffer),
        token_buffer_(Tensor::zeros({capacity_ * rows}, DType::i32)) {
    const int64_t max = model.is_step_capturable() ? context().sizes.parts : 1;
    const int64_t parts = std::clamp<int64_t>(rows / kFewestInPart, 1, max);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = part * rows / parts, own = (part + 1) * rows / parts - first;
      parts_.emplace_back(
          first, own,
          token_buffer_.rows(capacity_ * first, capacity_ * own).reshape({capacity_, own}));
    }
  }

  // Reads the tokens of `rows` from `first` on into fresh states, and draws what follows the last
  // of them.
  void read(const Rows& rows, size_t first) {
    graph_recorder_.reset();
    for (Part& part : parts_) part.state = {};  // its weights go before new ones are laid out
    for (Part& part : parts_) {
      part.state =
          &part == &parts_[0] ? model_.start(part.rows) : model_.start(part.rows, parts_[0].state);
      part.sampled.place = part.state.place;
    }
    if (model_.is_step_capturable()) graph_recorder_ = make_graph_recorder();
    for (size_t place = first; place < rows[0].size(); ++place) {
      for (Part& part : parts_) {
        const Tensor given =
            column(rows, part.first, part.rows, place, model_.config().input_vocab_size);
        device_memory(given.device())
            .copy(context(), part.sampled.tokens.address(), given.address(), given.bytes());
        model_.begin_position(part.state);
      }
      do_position(place + 1 == rows[0].size());
    }
    ++sampled_;
  }

  // Draws what follows the tokens that were drawn last.
  void go_on() {
    for (Part& part : parts_) model_.count_position(part.state);
    do_position(true);
    ++sampled_;
  }

  bool full() const { return parts_[0].state.position >= model_.config().length; }
  // Whether the device may still work on what was asked of it.
  bool runs_behind() const { return capacity_ > 1; }
  // More would be lost: the token_buffer has no place for them.
  bool must_flush() const { return sampled_ - taken_ >= capacity_; }

  const std::string& refusal() const { return refusal_; }

  // The tokens of each position that was drawn since the last call, in order.
  Rows take() {
    Rows result(static_cast<size_t>(sampled_ - taken_));
    const std::vector<int32_t> all = token_buffer_.to_vector<int32_t>();
    for (const Part& part : parts_) {
      for (int64_t n = taken_; n < sampled_; ++n) {
        const auto begin = all.begin() + capacity_ * part.first + n % capacity_ * part.rows;
        Rows::value_type& tokens = result[static_cast<size_t>(n - taken_)];
        tokens.insert(tokens.end(), begin, begin + part.rows);
      }
    }
    taken_ = sampled_;
    return result;
  }

 private:
  // Of all parts: reads the tokens that each has, and, where it `draws`, puts those that follow in
  // their place.
  void do_position(bool samples) {
    const auto work = [&] {
      for (size_t i = 0; i < parts_.size(); ++i) {
        const auto of_part = [&, &part = parts_[i]] {
          const Tensor outputs = model_.work(part.state, part.sampled.tokens);
          if (samples) sample_(outputs, part);
        };
        if (graph_recorder_ != nullptr) {
          graph_recorder_->apart(i, of_part);
        } else {
          of_part();
        }
      }
    };
    if (graph_recorder_ != nullptr && graph_recorder_->run(samples ? 0 : 1, work)) return;
    if (graph_recorder_ != nullptr) refusal_ = graph_recorder_->refusal();
    graph_recorder_.reset();
    work();
  }

  const Transformer& model_;
  Sample sample_;
  int64_t capacity_;     // positions in the token_buffer
  Tensor token_buffer_;  // of part after part, so that it is read at once
  std::vector<Part> parts_;
  int64_t sampled_ = 0, taken_ = 0;
  std::unique_ptr<GraphRecorder> graph_recorder_;
  std::string refusal_;  // of the recorder that was
};

// Early tokens are looked at soon; powers of two fall on every longer beat.
bool looked_at(int64_t sampled) { return (sampled & (sampled - 1)) == 0; }

}  // namespace

std::vector<std::vector<int32_t>> Generator::sample(const std::vector<std::vector<int32_t>>& prompt,
                                                    int64_t count, const Watcher& sampled,
                                                    std::string* not_captured) const {
  require(!prompt.empty() && !prompt[0].empty(), "sampling needs at least one token to start from");
  for (const auto& row : prompt)
    require(row.size() == prompt[0].size(),
            "prompts of {} and {} tokens cannot be drawn side by side", prompt[0].size(),
            row.size());
  const size_t length = static_cast<size_t>(model_.config().length), begin = prompt[0].size();
  Rows rows = prompt;
  Window window(model_, static_cast<int64_t>(rows.size()),
                [this](const Tensor& outputs, const Part& part) {
                  SamplingParams params = options_.params();
                  params.first_row += part.first;
                  model_.output_head().sample(outputs, params,
                                              {options_.seed, Purpose::sample, 0, 0}, part.sampled);
                });
  Rows taken;  // and not handed on yet
  const auto hand_on = [&] {
    for (const std::vector<int32_t>& next : std::exchange(taken, {})) {
      for (size_t row = 0; row < rows.size(); ++row) rows[row].push_back(next[row]);
      if (sampled) sampled(next);
    }
  };
  for (int64_t position = 0; position < count; ++position) {
    if (position == 0) {
      window.read(rows, begin > length ? begin - length : 0);
    } else if (window.full()) {
      window.read(rows, rows[0].size() - std::max<size_t>(1, length / 2));
    } else {
      window.go_on();
    }
    const bool last = position + 1 == count;
    if (!looked_at(position + 1) && !window.must_flush() && !window.full() && !last) continue;
    hand_on();  // while the device works on what was asked of it since
    const bool goes_on = window.must_flush() && window.runs_behind() && !window.full() && !last;
    taken = window.take();
    if (!goes_on) hand_on();
  }
  if (not_captured != nullptr) *not_captured = window.refusal();
  for (auto& row : rows) row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(begin));
  return rows;
}

}  // namespace linea
