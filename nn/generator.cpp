#include "nn/generator.h"

#include <algorithm>

#include "tensor/ops.h"

namespace linea {
namespace {

Tensor column(const std::vector<std::vector<int32_t>>& rows, size_t place, int64_t vocabulary) {
  std::vector<int32_t> symbols;
  for (const std::vector<int32_t>& row : rows) symbols.push_back(row[place]);
  const int64_t count = static_cast<int64_t>(symbols.size());
  return symbols_tensor(symbols, {count}, vocabulary);
}

}  // namespace

std::vector<std::vector<int32_t>> Generator::draw(const std::vector<std::vector<int32_t>>& prompt,
                                                  int64_t count, const Watcher& drawn) const {
  require(!prompt.empty() && !prompt[0].empty(), "sampling needs at least one symbol to start from");
  for (const auto& row : prompt)
    require(row.size() == prompt[0].size(), "prompts of {} and {} symbols cannot be drawn side by side",
            prompt[0].size(), row.size());
  const ModelConfig& config = model_.config();
  const size_t length = static_cast<size_t>(config.length), begin = prompt[0].size();
  std::vector<std::vector<int32_t>> rows = prompt, result(rows.size());

  // Reads the symbols from `first` on into a fresh state; the outputs that follow the last of them.
  DecodeState state;
  const auto read_from = [&](size_t first) {
    state = {};  // its weights go before new ones are laid out
    state = model_.start(static_cast<int64_t>(rows.size()));
    Tensor outputs;
    for (size_t place = first; place < rows[0].size(); ++place)
      outputs = model_.step(state, column(rows, place, config.input_vocabulary));
    return outputs;
  };

  Tensor outputs = read_from(begin > length ? begin - length : 0);
  for (int64_t position = 0; position < count; ++position) {
    const RandomStream stream{options_.seed, Purpose::sample, 0, static_cast<uint64_t>(position)};
    const Tensor scores = model_.head().scores(outputs);
    const Tensor symbols = options_.greedy ? ops::argmax(scores) : ops::sample(scores, options_.drawing(), stream);
    const std::vector<int32_t> next = symbols.to_vector<int32_t>();
    for (size_t row = 0; row < rows.size(); ++row) {
      rows[row].push_back(next[row]);
      result[row].push_back(next[row]);
    }
    if (drawn) drawn(next);
    if (position + 1 == count) break;
    if (state.position < config.length) {
      outputs = model_.step(state, symbols);
    } else {
      outputs = read_from(rows[0].size() - std::max<size_t>(1, length / 2));
    }
  }
  return result;
}

}  // namespace linea
