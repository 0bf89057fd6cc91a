#include "data/tasks/text_task.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/readers/file_kind.h"
#include "data/readers/text_file.h"
#include "data/text_tokens.h"
#include "data/vocabulary.h"

namespace linea {
namespace {

constexpr int64_t kDefaultTextLength = 256, kDefaultVocab = 512;

class TextTask : public Task {
 public:
  TextTask(const TaskShape& shape, TextTokens text, std::vector<std::string> notes)
      : Task(shape), text_(std::move(text)), notes_(std::move(notes)) {}

  // The last window starts early enough for its last target to belong to train.
  Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const override {
    Batch batch = blank_batch(rows, length(), shape().start);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t start = shuffled_example(seed, first_example + static_cast<uint64_t>(row),
                                             text_.train_end() - length());
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

  std::string fingerprint() const override { return text_.train_hash(); }

  std::string serialized_vocabulary() const override { return text_.vocabulary().serialize(); }

  std::vector<std::string> notes() const override { return notes_; }

 private:
  std::pair<int64_t, int64_t> range(Split split) const {
    require(
        has(split),
        "a text has no test split: its first 90% are train, the rest is val; choose `split` val");
    if (split == Split::train) return {0, text_.train_end()};
    return {text_.train_end(), text_.size()};
  }

  // Scores text[first, end), each token given the one before it (the start token before the first).
  void put(int64_t first, int64_t end, Batch& batch, int64_t row) const {
    std::vector<int32_t> tokens;
    const int64_t context = first > 0 ? 1 : 0;
    text_.read(first - context, end, tokens);
    std::copy(tokens.begin(), tokens.end() - 1,
              batch.inputs.begin() + row * length() + 1 - context);
    std::copy(tokens.begin() + context, tokens.end(), batch.targets.begin() + row * length());
  }

  TextTokens text_;
  std::vector<std::string> notes_;
};

// The characters of a text, or its bytes, which is noted; so is another encoding.
Vocabulary found_vocabulary(const TextSource& source, std::vector<std::string>& notes) {
  VocabularyScan scan;
  source.for_each_block(0, source.size(), [&](std::string_view block) { scan.add(block); });
  Vocabulary vocabulary = scan.vocabulary(source.name());
  std::string buffer;
  const std::string hint = encoding_hint(source.start(buffer));
  if (vocabulary.kind() == Vocabulary::Kind::bytes)
    notes.push_back(fmt::format("{}: not UTF-8 at byte {}: read as bytes{}", source.name(),
                                scan.first_non_utf8() + 1, hint));
  else if (!hint.empty())
    notes.push_back(fmt::format("{}: every character has bytes that are 0{}", source.name(), hint));
  return vocabulary;
}

Vocabulary learned_vocabulary(const TextSource& source, int64_t tokens,
                              std::vector<std::string>& notes) {
  Vocabulary vocabulary = learn_pairs(source, tokens);
  if (vocabulary.size() < tokens)
    notes.push_back(fmt::format(
        "{}: gives {} byte-pair tokens, fewer than the {} asked for: no pair of them occurs twice",
        source.name(), vocabulary.size(), tokens));
  return vocabulary;
}

Vocabulary vocabulary_for(const TaskOptions& options, const TextSource& source,
                          std::vector<std::string>& notes) {
  if (!options.vocabulary.empty()) return Vocabulary::parse(options.vocabulary);
  const std::string& tokenizer = options.settings.text("tokenizer");
  if (tokenizer == "bytes") return Vocabulary::all_bytes();
  if (tokenizer == "bpe")
    return learned_vocabulary(source, options.settings.integer("vocab"), notes);
  return found_vocabulary(source, notes);
}

// Error: ErrorKind::usage, fewer tokens than bytes and one pair.
void check_tokens(const Settings& settings) {
  if (!settings.has("vocab")) return;
  const int64_t tokens = settings.integer("vocab");
  require(
      tokens > kByteTokens,
      "`vocab` is {}; it must be at least {}: the {} bytes are tokens, too, and a pair adds one; "
      "for bytes alone choose `tokenizer` bytes",
      tokens, kByteTokens + 1, kByteTokens);
}

TaskShape shape_with(const TaskOptions& options, const Vocabulary& vocabulary) {
  TaskShape shape;
  shape.vocab_size = vocabulary.size();
  shape.input_vocab_size = vocabulary.size();
  shape.length = options.settings.integer("length");
  shape.start = vocabulary.start_token();
  shape.token_bytes = vocabulary.token_bytes();
  shape.byte_pairs = vocabulary.kind() == Vocabulary::Kind::byte_pairs;
  return shape;
}

TaskShape text_shape(const TaskOptions& options) {
  require(!options.vocabulary.empty(), "the shape of task text needs its vocabulary");
  return shape_with(options, Vocabulary::parse(options.vocabulary));
}

std::unique_ptr<Task> make_text_task(const TaskOptions& options) {
  const std::string& data = options.settings.text("data");
  require(!data.empty(), "task text reads a file; name it with `data`");
  check_tokens(options.settings);
  const std::shared_ptr<const TextSource> source = open_text_file(
      data, options.settings.text("tokenizer") == "bytes" ? TextKind::name : TextKind::content);
  std::vector<std::string> notes;
  TextTokens text(source, vocabulary_for(options, *source, notes));
  const TaskShape shape = shape_with(options, text.vocabulary());
  if (shape.length >= text.train_end())
    fail(ErrorKind::input,
         "{}: has {} tokens, of which {} are for training: too few for windows of {} + 1; use a "
         "longer text or a shorter `length`",
         data, text.size(), text.train_end(), shape.length);
  return std::make_unique<TextTask>(shape, std::move(text), std::move(notes));
}

}  // namespace

TaskEntry text_task() {
  using namespace declare;
  const auto fixed = [](Setting setting) { return changing(MayChange::never, std::move(setting)); };
  return {"text",
          "the next token of a text: a character, a byte or a byte pair",
          {of_model(integer("length", kDefaultTextLength, at_least(1), "tokens of a sequence")),
           fixed(choice("tokenizer", "char", {"char", "bytes", "bpe"},
                        "characters, the 256 bytes, or byte pairs learned from the training text")),
           fixed(only_with("tokenizer", {"bpe"},
                           integer("vocab", kDefaultVocab, {1, kMaxPairTokens},
                                   "tokens of bpe, the 256 bytes among them"))),
           standing_for("tokenizer", "bytes", flag("bytes", "the same as --tokenizer bytes")),
           data_setting("a file of text, plain, gzip or zip")},
          make_text_task,
          text_shape,
          true,
          "length"};
}

}  // namespace linea
