#include "data/tasks/text_task.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/hash.h"
#include "data/readers/file_kind.h"
#include "data/readers/text_file.h"
#include "data/utf8.h"
#include "data/vocabulary.h"
#include "tensor/error.h"

namespace linea {
namespace {

constexpr int64_t kDefaultLength = 256;

class TextTask : public Task {
 public:
  TextTask(const TaskShape& shape, Vocabulary vocabulary, std::vector<int32_t> text,
           std::vector<std::string> notes)
      : Task(shape),
        vocabulary_(std::move(vocabulary)),
        text_(std::move(text)),
        notes_(std::move(notes)),
        train_end_(train_tokens(token_count())) {}

  static int64_t train_tokens(int64_t tokens) { return tokens * 9 / 10; }

  // The last window starts early enough for its last target to belong to train.
  Batch train_batch(uint64_t seed, uint64_t step, int64_t rows) const override {
    Batch batch = blank_batch(rows, length(), shape().start);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t start = shuffled_example(seed, step, rows, row, train_end_ - length());
      put(start + 1, start + 1 + length(), batch, row);
    }
    return batch;
  }

  bool has(Split split) const override { return split != Split::test; }

  int64_t rows(Split split) const override {
    const auto [first, end] = range(split);
    return (end - first + length() - 1) / length();
  }

  Batch eval_batch(Split split, int64_t first_row, int64_t rows) const override {
    check_eval_rows(*this, split, first_row, rows);
    Batch batch = blank_batch(rows, length(), shape().start);
    const auto [first, end] = range(split);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t window = first + (first_row + row) * length();
      put(window, std::min(end, window + length()), batch, row);
    }
    return batch;
  }

  std::string fingerprint() const override {
    return hash_bytes({reinterpret_cast<const char*>(text_.data()),
                       static_cast<size_t>(train_end_) * sizeof(int32_t)});
  }

  std::string serialized_vocabulary() const override { return vocabulary_.serialize(); }

  std::vector<std::string> notes() const override { return notes_; }

 private:
  int64_t token_count() const { return static_cast<int64_t>(text_.size()); }

  std::pair<int64_t, int64_t> range(Split split) const {
    require(
        has(split),
        "a text has no test split: its first 90% are train, the rest is val; choose `split` val");
    if (split == Split::train) return {0, train_end_};
    return {train_end_, token_count()};
  }

  // Scores text[first, end), each token given the one before it (the start token before the first).
  void put(int64_t first, int64_t end, Batch& batch, int64_t row) const {
    int32_t* inputs = batch.inputs.data() + row * length();
    int32_t* targets = batch.targets.data() + row * length();
    for (int64_t position = first; position < end; ++position) {
      if (position > 0) inputs[position - first] = text_[static_cast<size_t>(position - 1)];
      targets[position - first] = text_[static_cast<size_t>(position)];
    }
  }

  Vocabulary vocabulary_;
  std::vector<int32_t> text_;
  std::vector<std::string> notes_;
  int64_t train_end_;  // text_[0, train_end_) is train, the rest val
};

// Of a text that becomes bytes, though nobody asked for that, and of one in another encoding.
std::vector<std::string> notes_on(const TaskOptions& options, const Vocabulary& vocabulary,
                                  const std::string& text) {
  if (options.settings.flag("bytes") || !options.vocabulary.empty()) return {};
  const std::string& data = options.settings.text("data");
  const std::string hint = encoding_hint(text);
  if (vocabulary.kind() == Vocabulary::Kind::bytes)
    return {fmt::format("{}: not UTF-8 at byte {}: read as bytes{}", data, first_non_utf8(text) + 1,
                        hint)};
  if (hint.empty()) return {};
  return {fmt::format("{}: every character has bytes that are 0{}", data, hint)};
}

Vocabulary vocabulary_for(const TaskOptions& options, const std::string& text) {
  if (!options.vocabulary.empty()) return Vocabulary::parse(options.vocabulary);
  return options.settings.flag("bytes")
             ? Vocabulary::all_bytes()
             : Vocabulary::from_text(text, options.settings.text("data"));
}

TaskShape shape_with(const TaskOptions& options, const Vocabulary& vocabulary) {
  TaskShape shape;
  shape.vocab_size = vocabulary.size();
  shape.input_vocab_size = vocabulary.size();
  shape.length = options.settings.integer("length");
  shape.start = vocabulary.start_token();
  return shape;
}

TaskShape shape_of(const TaskOptions& options) {
  require(!options.vocabulary.empty(), "the shape of task text needs its vocabulary");
  return shape_with(options, Vocabulary::parse(options.vocabulary));
}

std::unique_ptr<Task> make(const TaskOptions& options) {
  const std::string& data = options.settings.text("data");
  require(!data.empty(), "task text reads a file; name it with `data`");
  const std::string text =
      read_text_file(data, options.settings.flag("bytes") ? TextKind::name : TextKind::content);
  Vocabulary vocabulary = vocabulary_for(options, text);
  const TaskShape shape = shape_with(options, vocabulary);
  std::vector<std::string> notes = notes_on(options, vocabulary, text);
  std::vector<int32_t> tokens = vocabulary.encode(text, data + ":");
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t train_count = TextTask::train_tokens(count);
  if (shape.length >= train_count)
    fail(ErrorKind::input,
         "{}: has {} tokens, of which {} are for training: too few for windows of {} + 1; use a "
         "longer text or a shorter `length`",
         data, count, train_count, shape.length);
  return std::make_unique<TextTask>(shape, std::move(vocabulary), std::move(tokens),
                                    std::move(notes));
}

}  // namespace

TaskEntry text_task() {
  using namespace declare;
  return {"text",
          "the next character of a text",
          {of_model(integer("length", kDefaultLength, at_least(1), "tokens of a sequence")),
           of_model(flag("bytes", "take the 256 bytes as tokens, whatever the file holds")),
           data_setting("a file of text, plain, gzip or zip")},
          make,
          shape_of,
          true,
          "length"};
}

}  // namespace linea
