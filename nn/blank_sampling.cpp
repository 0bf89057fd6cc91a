// Sampling of images by a model that skips blank positions (nn/blank.h): each row is at a position of its
// own, so that the blocks run once for the next position of every row that is not blank, and blank
// positions between them take the small layer alone.
#include <algorithm>

#include "nn/blank.h"
#include "nn/generation.h"

namespace linea {
namespace {

// An image whose tokens before position `next` are known: tokens[0] is the start or the class, and
// token n + 1 is predicted at position n. The `skipped` positions before it are blank.
struct Row {
  std::vector<int32_t> tokens;
  std::vector<bool> computed;  // positions that are not blank, by the tokens so far
  int64_t next = 0, skipped = 0;
};

class SkippingRows {
 public:
  SkippingRows(const Model& model, const SamplingOptions& options, const TokenRows& prompt,
               int64_t end)
      : model_(model),
        options_(options),
        neighborhood_(model.config()),
        given_(static_cast<int64_t>(prompt[0].size()) - 1),
        end_(end),
        halves_(options.is_guided() ? 2 : 1),
        state_(model.start(static_cast<int64_t>(prompt.size()) * halves_)) {
    for (const std::vector<int32_t>& tokens : prompt)
      rows_.push_back({tokens, neighborhood_.empty()});
  }

  // The next position of each row that is not blank, then the blank ones after it.
  void advance() {
    const Tensor outputs = compute();
    std::vector<size_t> all(rows_.size());
    for (size_t r = 0; r < all.size(); ++r) all[r] = r;
    settle(all, outputs);
    for (std::vector<size_t> at = at_blank(); !at.empty(); at = at_blank()) settle(at, blank(at));
  }

  // Positions that all rows have passed.
  int64_t passed() const {
    return std::min_element(rows_.begin(), rows_.end(),
                            [](const Row& a, const Row& b) { return a.next < b.next; })
        ->next;
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  // One of each row, and once more for the half without classes.
  std::vector<int32_t> twice(std::vector<int32_t> values) const {
    if (halves_ == 2) values.insert(values.end(), values.begin(), values.end());
    return values;
  }

  // Outputs of the position of each row; rows that are complete read their first token once more.
  Tensor compute() {
    std::vector<int32_t> ids, positions;
    const auto R = static_cast<int64_t>(rows_.size());
    for (int64_t r = 0; r < R; ++r) {
      Row& row = rows_[static_cast<size_t>(r)];
      const int64_t n = row.next < end_ ? row.next : 0;
      ids.push_back(row.tokens[static_cast<size_t>(n)]);
      positions.push_back(static_cast<int32_t>(n));
      for (int64_t half = 0; half < halves_; ++half)
        model_.skip(state_, half * R + r, row.next - row.skipped, row.next);
      row.skipped = 0;
    }
    const Tensor read = token_tensor(twice(ids), {R * halves_}, model_.config().input_vocab_size);
    if (halves_ == 2 && rows_[0].next == 0)
      read.rows(R, R).write(std::vector<int32_t>(rows_.size(), model_.config().no_class).data());
    state_.device_position.write(twice(positions).data());
    return model_.decode(state_, read);
  }

  // Rows whose position is blank and sampled; given blank positions are passed.
  std::vector<size_t> at_blank() {
    std::vector<size_t> result;
    for (size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      while (is_blank(row) && row.next < given_) pass(row);
      if (is_blank(row)) result.push_back(r);
    }
    return result;
  }
  bool is_blank(const Row& row) const {
    return row.next < end_ && !row.computed[static_cast<size_t>(row.next)];
  }

  Tensor blank(const std::vector<size_t>& at) const {
    std::vector<int32_t> sequences, positions;
    for (int64_t half = 0; half < halves_; ++half)
      for (const size_t r : at) {
        sequences.push_back(static_cast<int32_t>(half * static_cast<int64_t>(rows_.size()) +
                                                 static_cast<int64_t>(r)));
        positions.push_back(static_cast<int32_t>(rows_[r].next));
      }
    const Shape shape{static_cast<int64_t>(sequences.size())};
    return model_.decode_blank(state_, Tensor::from(sequences, shape),
                               Tensor::from(positions, shape));
  }

  // The tokens of the positions of some rows, by their outputs.
  void settle(const std::vector<size_t>& at, const Tensor& outputs) {
    for (size_t i = 0; i < at.size(); ++i) {
      Row& row = rows_[at[i]];
      if (row.next >= end_) continue;
      if (row.next >= given_) row.tokens.push_back(sample(outputs, i, at[i], row.next - given_));
      pass(row);
    }
  }

  void pass(Row& row) const {
    if (is_blank(row)) ++row.skipped;
    neighborhood_.add(row.next, row.tokens[static_cast<size_t>(row.next + 1)], row.computed);
    ++row.next;
  }

  // By outputs i, of each half.
  int32_t sample(const Tensor& outputs, size_t i, size_t row, int64_t step) const {
    const Tensor own({halves_, outputs.size(1)}, outputs.dtype());
    for (int64_t half = 0; half < halves_; ++half)
      ops::copy_into(outputs.rows(half * outputs.size(0) / halves_ + static_cast<int64_t>(i), 1),
                     own.rows(half, 1));
    const ops::Sampled to{Tensor::zeros({1}, DType::i32)};
    sample_rows(model_, options_, own, static_cast<int64_t>(row), step, to);
    return to.tokens.to_vector<int32_t>()[0];
  }

  const Model& model_;
  const SamplingOptions& options_;
  Neighborhood neighborhood_;
  int64_t given_, end_;  // positions whose tokens are given, and that are wanted
  int64_t halves_;       // 2: with guidance each row is there without its class, too
  DecodeState state_;
  std::vector<Row> rows_;
};

}  // namespace

TokenRows sample_skipping(const Model& model, const SamplingOptions& options,
                          const TokenRows& prompt, int64_t count, const TokenCallback& on_tokens) {
  const auto begin = static_cast<int64_t>(prompt[0].size());
  const int64_t end = begin - 1 + count, length = model.config().length;
  require(count >= 0 && end <= length, "{} tokens do not fit the image's {}", end, length);
  for (const std::vector<int32_t>& tokens : prompt)
    for (size_t n = 1; n < tokens.size(); ++n)
      require(tokens[n] >= 0 && tokens[n] < model.config().vocab_size,
              "token {} is outside the vocabulary of {}", tokens[n], model.config().vocab_size);
  SkippingRows all(model, options, prompt, end);
  int64_t sampled = 0;
  for (bool continues = true; continues && all.passed() < end;) {
    all.advance();
    for (; continues && sampled < all.passed() - begin + 1; ++sampled) {
      std::vector<int32_t> tokens;
      for (const Row& row : all.rows())
        tokens.push_back(row.tokens[static_cast<size_t>(begin + sampled)]);
      continues = !on_tokens || on_tokens(tokens);
    }
  }
  TokenRows result;
  for (const Row& row : all.rows())
    result.emplace_back(row.tokens.begin() + begin, row.tokens.begin() + begin + sampled);
  return result;
}

}  // namespace linea
