#include "data/tasks/listops_task.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace linea {
namespace listops {

int32_t apply(int32_t op, std::vector<int32_t> operands) {
  std::sort(operands.begin(), operands.end());
  const size_t half = operands.size() / 2;
  if (op == min) return operands.front();
  if (op == max) return operands.back();
  if (op == sum) return std::accumulate(operands.begin(), operands.end(), 0) % 10;
  return operands.size() % 2 == 1 ? operands[half] : (operands[half - 1] + operands[half]) / 2;
}

}  // namespace listops

namespace {

constexpr int32_t kDigits = 10, kOperators = 4;
constexpr float kOperatorShare = 0.25f;
constexpr int64_t kDefaultDepth = 10, kMaxDepth = 100, kDefaultArgs = 10, kMaxArgs = 1000,
                  kDefaultMin = 500, kDefaultMax = 2000, kMaxLength = int64_t{1} << 20;
constexpr int64_t kTrainRows = 96000, kOtherRows = 2000;
constexpr uint64_t kMaxAttempts = 1000000;

struct Expressions {
  int64_t depth, args, min, max;  // lengths are between min and max, both excluded
};

// One attempt at a tree: the tokens, and its value.
class Tree {
 public:
  // Attempt a of a stream takes its numbers from index 2^32 a on.
  Tree(const Expressions& kind, const RandomStream& stream, uint64_t attempt)
      : kind_(kind), stream_(stream), index_(attempt << 32) {
    value_ = grow(1);
  }
  bool fits() const { return value_ >= 0 && static_cast<int64_t>(tokens_.size()) > kind_.min; }
  int32_t value() const { return value_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  int32_t below(int64_t count) {
    return static_cast<int32_t>(random_below(stream_, index_++, static_cast<uint32_t>(count)));
  }

  // Appends a tree; returns its value, or -1 once there are too many tokens.
  int32_t grow(int64_t depth) {
    if (static_cast<int64_t>(tokens_.size()) + 1 >= kind_.max) return -1;
    if (depth == kind_.depth || random_uniform(stream_, index_++) > kOperatorShare) {
      tokens_.push_back(below(kDigits));
      return tokens_.back();
    }
    const int32_t op = listops::min + below(kOperators);
    tokens_.push_back(op);
    std::vector<int32_t> operands(static_cast<size_t>(2 + below(kind_.args - 1)));
    for (int32_t& operand : operands)
      if ((operand = grow(depth + 1)) < 0) return -1;
    tokens_.push_back(listops::close);
    if (static_cast<int64_t>(tokens_.size()) >= kind_.max) return -1;
    return listops::apply(op, std::move(operands));
  }

  const Expressions kind_;
  const RandomStream stream_;
  uint64_t index_;
  std::vector<int32_t> tokens_;
  int32_t value_;
};

class ListopsTask : public Task {
 public:
  ListopsTask(const TaskShape& shape, const Expressions& kind, uint64_t seed)
      : Task(shape), kind_(kind), seed_(seed) {
    tree(Split::val, 0);  // where there is none, before the work starts
  }

  Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const override {
    Batch batch = blank_batch(rows, length(), listops::padding);
    for (int64_t row = 0; row < rows; ++row)
      put(Split::train,
          shuffled_example(seed, first_example + static_cast<uint64_t>(row), kTrainRows), batch,
          row);
    return batch;
  }

  int64_t rows(Split split) const override {
    return split == Split::train ? kTrainRows : kOtherRows;
  }

  Batch eval_batch(Split split, int64_t first_row, int64_t rows) const override {
    check_eval_rows(*this, split, first_row, rows);
    Batch batch = blank_batch(rows, length(), listops::padding);
    for (int64_t row = 0; row < rows; ++row) put(split, first_row + row, batch, row);
    return batch;
  }

 private:
  Tree tree(Split split, int64_t number) const {
    const RandomStream stream{seed_, Purpose::task,
                              task_stream::kListops + static_cast<uint32_t>(split),
                              static_cast<uint64_t>(number)};
    for (uint64_t attempt = 0; attempt < kMaxAttempts; ++attempt)
      if (Tree tree(kind_, stream, attempt); tree.fits()) return tree;
    fail(
        ErrorKind::usage,
        "none of {} expressions has more than {} and fewer than {} tokens; lower `listops_min`, or "
        "raise `listops_depth` or `listops_args`",
        kMaxAttempts, kind_.min, kind_.max);
  }

  void put(Split split, int64_t number, Batch& batch, int64_t row) const {
    const Tree chosen = tree(split, number);
    std::copy(chosen.tokens().begin(), chosen.tokens().end(),
              batch.inputs.begin() + row * length());
    put_answer(shape(), static_cast<int64_t>(chosen.tokens().size()), listops::answer,
               chosen.value(), batch, row);
  }

  const Expressions kind_;
  const uint64_t seed_;
};

Expressions expressions(const TaskOptions& options) {
  const auto of = [&](const char* key) { return options.settings.integer(key); };
  return {of("listops_depth"), of("listops_args"), of("listops_min"), of("listops_max")};
}

TaskShape listops_shape(const TaskOptions& options) {
  const Expressions kind = expressions(options);
  require(
      kind.max - kind.min >= 2,
      "`listops_min` is {} and `listops_max` {}: no length is between them; raise `listops_max`",
      kind.min, kind.max);
  int64_t longest = 1;  // of a tree with all operands at every depth
  for (int64_t depth = 1; depth < kind.depth && longest <= kind.min; ++depth)
    longest = 2 + kind.args * longest;
  require(longest > kind.min,
          "`listops_min` is {}, but expressions have at most {} tokens: lower it, or raise "
          "`listops_depth` or `listops_args`",
          kind.min, longest);
  TaskShape shape;
  shape.vocab_size = kDigits;
  shape.input_vocab_size = listops::count;
  shape.answer_tokens = options.settings.integer("answer_tokens");
  shape.length = kind.max - 1 + shape.answer_tokens;
  shape.start = listops::answer;
  return shape;
}

}  // namespace

TaskEntry listops_task() {
  using namespace declare;
  const auto size = [](const char* key, int64_t initial, Range range, const char* help) {
    return of_model(integer(key, initial, range, help));
  };
  const auto length_limit = static_cast<double>(kMaxLength);
  return {"listops",
          "the value of a nested expression over the digits",
          {size("listops_depth", kDefaultDepth, {2, static_cast<double>(kMaxDepth)},
                "depth of an expression at most"),
           size("listops_args", kDefaultArgs, {2, static_cast<double>(kMaxArgs)},
                "operands of an operator at most"),
           size("listops_min", kDefaultMin, {0, length_limit}, "expressions have more tokens"),
           size("listops_max", kDefaultMax, {2, length_limit}, "expressions have fewer tokens"),
           answer_setting()},
          [](const TaskOptions& options) {
            return std::make_unique<ListopsTask>(listops_shape(options), expressions(options),
                                                 options.seed);
          },
          listops_shape,
          false,
          "listops_max"};
}

}  // namespace linea
