#include "nn/generator.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "tensor/error.h"
#include "tensor/ops.h"

namespace linea {
namespace {

Tensor column(const std::vector<std::vector<int32_t>>& rows, size_t place, int64_t vocabulary) {
  std::vector<int32_t> symbols;
  for (const std::vector<int32_t>& row : rows) symbols.push_back(row[place]);
  const int64_t count = static_cast<int64_t>(symbols.size());
  return symbols_tensor(symbols, {count}, vocabulary);
}

// While one lives, the device counts the symbols that are drawn.
class Position {
 public:
  ~Position() {
    context().step->position = 0;
    try {
      send_step(context());
    } catch (const Error&) {  // the device is lost: whoever asks it next is told
    }
  }
  void set(int64_t position) {
    context().step->position = static_cast<uint64_t>(position);
    send_step(context());
  }
};

// Symbols one after another from one state; a position's work is recorded where the device does that.
class Window {
 public:
  using Draw = std::function<Tensor(const Tensor& outputs)>;

  Window(const Transformer& model, Draw draw) : model_(model), draw_(std::move(draw)) {}

  // Reads the symbols of `rows` from `first` on into a fresh state, and draws what follows the last of them.
  void read(const std::vector<std::vector<int32_t>>& rows, size_t first) {
    recorder_.reset();
    state_ = {};  // its weights go before new ones are laid out
    state_ = model_.start(static_cast<int64_t>(rows.size()));
    Tensor outputs;
    for (size_t place = first; place < rows[0].size(); ++place)
      outputs = model_.step(state_, column(rows, place, model_.config().input_vocabulary));
    symbols_ = draw_(outputs);
    if (model_.repeats_its_steps()) recorder_ = make_recorder();
  }

  // Draws what follows the symbols that were drawn last.
  void go_on() {
    model_.take_position(state_);
    const auto work = [this] {
      const Tensor next = draw_(model_.work(state_, symbols_));
      device_memory(next.device()).copy(context(), symbols_.address(), next.address(), next.bytes());
    };
    if (recorder_ != nullptr && recorder_->run(0, work)) return;
    recorder_.reset();
    work();
  }

  bool full() const { return state_.position >= model_.config().length; }
  std::vector<int32_t> symbols() const { return symbols_.to_vector<int32_t>(); }

 private:
  const Transformer& model_;
  Draw draw_;
  DecodeState state_;
  Tensor symbols_;  // [rows], drawn last
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace

std::vector<std::vector<int32_t>> Generator::draw(const std::vector<std::vector<int32_t>>& prompt,
                                                  int64_t count, const Watcher& drawn) const {
  require(!prompt.empty() && !prompt[0].empty(), "sampling needs at least one symbol to start from");
  for (const auto& row : prompt)
    require(row.size() == prompt[0].size(), "prompts of {} and {} symbols cannot be drawn side by side",
            prompt[0].size(), row.size());
  const size_t length = static_cast<size_t>(model_.config().length), begin = prompt[0].size();
  std::vector<std::vector<int32_t>> rows = prompt, result(rows.size());
  Position of_symbol;
  Window window(model_, [this](const Tensor& outputs) {
    const Tensor scores = model_.head().scores(outputs);
    if (options_.greedy) return ops::argmax(scores);
    return ops::sample(scores, options_.drawing(), {options_.seed, Purpose::sample, 0, 0});
  });
  for (int64_t position = 0; position < count; ++position) {
    of_symbol.set(position);
    if (position == 0) {
      window.read(rows, begin > length ? begin - length : 0);
    } else if (window.full()) {
      window.read(rows, rows[0].size() - std::max<size_t>(1, length / 2));
    } else {
      window.go_on();
    }
    const std::vector<int32_t> next = window.symbols();
    for (size_t row = 0; row < rows.size(); ++row) {
      rows[row].push_back(next[row]);
      result[row].push_back(next[row]);
    }
    if (drawn) drawn(next);
  }
  return result;
}

}  // namespace linea
