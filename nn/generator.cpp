#include "nn/generator.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "tensor/error.h"
#include "tensor/ops.h"

namespace linea {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

Tensor column(const Rows& rows, size_t place, int64_t vocabulary) {
  std::vector<int32_t> symbols;
  for (const std::vector<int32_t>& row : rows) symbols.push_back(row[place]);
  const int64_t count = static_cast<int64_t>(symbols.size());
  return symbols_tensor(symbols, {count}, vocabulary);
}

// Symbols one after another from one state; a position's work is recorded where the device does that. What is drawn
// stays on the device until the host asks for it.
class Window {
 public:
  // The symbols that follow outputs, of which count [1] were drawn before.
  using Draw = std::function<Tensor(const Tensor& outputs, const Tensor& count)>;

  Window(const Transformer& model, int64_t rows, Draw draw)
      : model_(model),
        draw_(std::move(draw)),
        rows_(rows),
        symbols_(Tensor::zeros({rows}, DType::i32)),
        count_(Tensor::zeros({1}, DType::i32)),
        history_(Tensor::zeros({context().sizes.history, rows}, DType::i32)) {}

  // Reads the symbols of `rows` from `first` on into a fresh state, and draws what follows the last of them.
  void read(const Rows& rows, size_t first) {
    recorder_.reset();
    state_ = {};  // its weights go before new ones are laid out
    state_ = model_.start(rows_);
    Tensor outputs;
    for (size_t place = first; place < rows[0].size(); ++place)
      outputs = model_.step(state_, column(rows, place, model_.config().input_vocabulary));
    keep(outputs);
    if (model_.repeats_its_steps()) recorder_ = make_recorder();
    ++drawn_;
  }

  // Draws what follows the symbols that were drawn last.
  void go_on() {
    model_.count_position(state_);
    const auto work = [this] { keep(model_.work(state_, symbols_)); };
    if (recorder_ == nullptr || !recorder_->run(0, work)) {
      recorder_.reset();
      work();
    }
    ++drawn_;
  }

  bool full() const { return state_.position >= model_.config().length; }
  // More would be lost: the history has no place for them.
  bool must_take() const { return drawn_ - taken_ >= history_.size(0); }

  // The symbols of each position that was drawn since the last call, in order.
  Rows take() {
    const std::vector<int32_t> all = history_.to_vector<int32_t>();
    Rows result;
    for (; taken_ < drawn_; ++taken_) {
      const auto begin = all.begin() + taken_ % history_.size(0) * rows_;
      result.emplace_back(begin, begin + rows_);
    }
    return result;
  }

 private:
  void keep(const Tensor& outputs) { ops::keep_drawn(draw_(outputs, count_), symbols_, state_.place, count_, history_); }

  const Transformer& model_;
  Draw draw_;
  DecodeState state_;
  int64_t rows_;
  Tensor symbols_;  // [rows], drawn last
  Tensor count_;    // [1], of positions that the device drew
  Tensor history_;  // [.., rows], of those
  int64_t drawn_ = 0, taken_ = 0;
  std::unique_ptr<Recorder> recorder_;
};

// Early symbols are looked at soon; powers of two fall on every longer beat.
bool looked_at(int64_t drawn) { return (drawn & (drawn - 1)) == 0; }

}  // namespace

std::vector<std::vector<int32_t>> Generator::draw(const std::vector<std::vector<int32_t>>& prompt,
                                                  int64_t count, const Watcher& drawn) const {
  require(!prompt.empty() && !prompt[0].empty(), "sampling needs at least one symbol to start from");
  for (const auto& row : prompt)
    require(row.size() == prompt[0].size(), "prompts of {} and {} symbols cannot be drawn side by side",
            prompt[0].size(), row.size());
  const size_t length = static_cast<size_t>(model_.config().length), begin = prompt[0].size();
  Rows rows = prompt;
  Window window(model_, static_cast<int64_t>(rows.size()), [this](const Tensor& outputs, const Tensor& before) {
    const Tensor scores = model_.head().scores(outputs);
    if (options_.greedy) return ops::argmax(scores);
    return ops::sample(scores, options_.drawing(), {options_.seed, Purpose::sample, 0, 0}, before);
  });
  for (int64_t position = 0; position < count; ++position) {
    if (position == 0) {
      window.read(rows, begin > length ? begin - length : 0);
    } else if (window.full()) {
      window.read(rows, rows[0].size() - std::max<size_t>(1, length / 2));
    } else {
      window.go_on();
    }
    if (!looked_at(position + 1) && !window.must_take() && !window.full() && position + 1 < count) continue;
    for (const std::vector<int32_t>& next : window.take()) {
      for (size_t row = 0; row < rows.size(); ++row) rows[row].push_back(next[row]);
      if (drawn) drawn(next);
    }
  }
  for (auto& row : rows) row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(begin));
  return rows;
}

}  // namespace linea
