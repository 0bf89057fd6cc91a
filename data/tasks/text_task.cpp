#include "data/tasks/text_task.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/files.h"
#include "data/hash.h"
#include "data/readers/zip.h"
#include "data/vocabulary.h"
#include "tensor/error.h"

namespace linea {
namespace {

constexpr int64_t kDefaultLength = 256;

class TextTask : public Task {
 public:
  TextTask(const TaskShape& shape, Vocabulary vocabulary, std::vector<int32_t> text)
      : Task(shape),
        vocabulary_(std::move(vocabulary)),
        text_(std::move(text)),
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

 private:
  int64_t token_count() const { return static_cast<int64_t>(text_.size()); }

  std::pair<int64_t, int64_t> range(Split split) const {
    require(
        has(split),
        "a text has no test split: its first 90% are train, the rest is val; choose --split val");
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
  int64_t train_end_;  // text_[0, train_end_) is train, the rest val
};

std::string read_text(const std::string& path) {
  const std::string text = path.ends_with(".zip") ? read_zip(path) : read_file(path);
  if (text.empty()) fail(ErrorKind::input, "{}: is empty; name a file with text", path);
  return text;
}

Vocabulary vocabulary_for(const TaskOptions& options, const std::string& text) {
  if (!options.vocabulary.empty()) return Vocabulary::parse(options.vocabulary);
  return options.bytes ? Vocabulary::all_bytes() : Vocabulary::from_text(text, options.data);
}

TaskShape shape_with(const TaskOptions& options, const Vocabulary& vocabulary) {
  const int64_t length = options.length == 0 ? kDefaultLength : options.length;
  require(length >= 1, "text windows of length {}; choose at least 1", length);
  require(options.size == 0 && options.levels == 0 && options.count == 0 && !options.class_token,
          "task text takes a file and a length; leave out size, levels, count and class token");
  TaskShape shape;
  shape.vocab_size = vocabulary.size();
  shape.input_vocab_size = vocabulary.size();
  shape.length = length;
  shape.start = vocabulary.start_token();
  return shape;
}

}  // namespace

TaskShape text_shape(const TaskOptions& options) {
  require(!options.vocabulary.empty(), "the shape of task text needs its vocabulary");
  return shape_with(options, Vocabulary::parse(options.vocabulary));
}

std::unique_ptr<Task> make_text_task(const TaskOptions& options) {
  require(!options.data.empty(), "task text reads a file; name it with --data");
  const std::string text = read_text(options.data);
  Vocabulary vocabulary = vocabulary_for(options, text);
  const TaskShape shape = shape_with(options, vocabulary);
  std::vector<int32_t> tokens = vocabulary.encode(text, options.data + ":");
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t train_count = TextTask::train_tokens(count);
  if (shape.length >= train_count)
    fail(ErrorKind::input,
         "{}: has {} tokens, of which {} are for training: too few for windows of {} + 1; use a "
         "longer text or a shorter --length",
         options.data, count, train_count, shape.length);
  return std::make_unique<TextTask>(shape, std::move(vocabulary), std::move(tokens));
}

}  // namespace linea
