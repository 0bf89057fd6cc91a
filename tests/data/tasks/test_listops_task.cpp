// The listops task: expressions, their values by a second evaluator, lengths and splits.
#include "data/tasks/listops_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/expect_error.h"

namespace linea {
namespace {

TaskOptions small_listops() {
  return {"listops",
          {{"listops_depth", 6}, {"listops_args", 5}, {"listops_min", 24}, {"listops_max", 256}}};
}

// The value of the tokens from `at` on, which moves behind them: by counting, without sorting.
int32_t value_of(const std::vector<int32_t>& tokens, size_t& at) {
  const int32_t token = tokens.at(at++);
  if (token < 10) return token;
  std::vector<int> count(10);
  int operands = 0, total = 0;
  while (tokens.at(at) != listops::close) {
    const int32_t value = value_of(tokens, at);
    ++count.at(static_cast<size_t>(value));
    ++operands;
    total += value;
  }
  ++at;
  EXPECT_GE(operands, 2);
  const auto ranked = [&](int rank) {
    int32_t value = 0;
    for (int below = count[0]; below <= rank; below += count.at(static_cast<size_t>(value)))
      ++value;
    return value;
  };
  if (token == listops::min) return ranked(0);
  if (token == listops::max) return ranked(operands - 1);
  if (token == listops::sum) return total % 10;
  EXPECT_EQ(token, listops::median);
  return (ranked((operands - 1) / 2) + ranked(operands / 2)) / 2;
}

TEST(Listops, OperatorsAreThoseOfTheTask) {
  using namespace listops;
  EXPECT_EQ(apply(median, {3, 8}), 5);
  EXPECT_EQ(apply(median, {9, 1, 4}), 4);
  EXPECT_EQ(apply(sum, {9, 9, 9}), 7);
  EXPECT_EQ(apply(min, {4, 2, 7}), 2);
  EXPECT_EQ(apply(max, {4, 2, 7}), 7);
}

TEST(Listops, TargetsAreTheValuesOfTheExpressions) {
  TaskOptions options = small_listops();
  options.settings["answer_tokens"] = 3;
  const auto task = make_task(options);
  EXPECT_EQ(task->length(), 258);
  EXPECT_EQ(task->vocab_size(), 10);
  EXPECT_EQ(task->input_vocab_size(), 17);
  std::set<int32_t> answers, used;
  int64_t shortest = 1000, longest = 0;
  for (const Batch& batch :
       {task->train_rows(5, 2100, 300), task->eval_batch(Split::val, 100, 300)}) {
    ASSERT_EQ(batch.lengths.size(), 300u);
    for (int64_t row = 0; row < 300; ++row) {
      const auto first = batch.inputs.begin() + row * batch.length;
      const int64_t end = batch.lengths[static_cast<size_t>(row)], tokens = end - 3;
      const std::vector<int32_t> expression(first, first + tokens);
      size_t at = 0;
      const int32_t value = value_of(expression, at);
      EXPECT_EQ(at, expression.size());
      for (int64_t t = 0; t < batch.length; ++t) {
        const int32_t target = batch.targets[static_cast<size_t>(row * batch.length + t)];
        EXPECT_EQ(target, t == end - 1 ? value : kNotScored);
        if (t < tokens) continue;
        EXPECT_EQ(first[t], t < end ? listops::answer : listops::padding);
      }
      answers.insert(value);
      used.insert(expression.begin(), expression.end());
      shortest = std::min(shortest, tokens);
      longest = std::max(longest, tokens);
    }
  }
  EXPECT_EQ(answers.size(), 10u);
  EXPECT_EQ(used.size(), 15u);  // all but padding and answer
  EXPECT_GT(shortest, 24);
  EXPECT_LT(longest, 256);
}

TEST(Listops, IsAFunctionOfSeedSplitAndNumber) {
  const auto task = make_task(small_listops());
  const Batch many = task->eval_batch(Split::test, 0, 8), one = task->eval_batch(Split::test, 5, 1);
  EXPECT_TRUE(
      std::equal(one.inputs.begin(), one.inputs.end(), many.inputs.begin() + 5 * many.length));
  EXPECT_EQ(one.lengths[0], many.lengths[5]);
  EXPECT_EQ(make_task(small_listops())->eval_batch(Split::test, 0, 8).inputs, many.inputs);
  TaskOptions other = small_listops();
  other.seed = 1;
  EXPECT_NE(make_task(other)->eval_batch(Split::test, 0, 8).inputs, many.inputs);
  EXPECT_NE(task->train_rows(1, 0, 4).inputs, task->train_rows(2, 0, 4).inputs);
}

TEST(Listops, SplitsAreDisjoint) {
  const auto task = make_task(small_listops());
  std::set<std::vector<int32_t>> seen;
  int64_t all = 0;
  for (const auto& [split, rows] :
       {std::pair{Split::train, 6000}, {Split::val, 2000}, {Split::test, 2000}}) {
    const Batch batch = task->eval_batch(split, 0, rows);
    for (int64_t row = 0; row < rows; ++row, ++all)
      seen.insert({batch.inputs.begin() + row * batch.length,
                   batch.inputs.begin() + (row + 1) * batch.length});
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), all);
}

TEST(Listops, ThePublishedSizesAreTheDefaults) {
  const auto task = make_task({"listops"});
  EXPECT_EQ(task->length(), 2000);
  EXPECT_EQ(task->rows(Split::train), 96000);
  EXPECT_EQ(task->rows(Split::val), 2000);
  const Batch batch = task->eval_batch(Split::val, 0, 20);
  for (const int32_t length : batch.lengths) {
    EXPECT_GT(length - 1, 500);
    EXPECT_LT(length - 1, 2000);
  }
}

TEST(Listops, ImpossibleSizesAreRefused) {
  const auto refused = [](const char* key, int64_t value,
                          std::initializer_list<std::string> fragments) {
    TaskOptions options = small_listops();
    options.settings[key] = value;
    expect_error(ErrorKind::usage, fragments, [&] { make_task(options); });
  };
  refused("listops_max", 25, {"`listops_min` is 24", "`listops_max` 25"});
  refused("listops_depth", 2, {"at most 7 tokens", "`listops_depth`"});
  refused("listops_args", 1, {"`listops_args` is 1"});
  refused("answer_tokens", 0, {"`answer_tokens` is 0"});
}

// Expressions that hardly ever come are no endless loop.
TEST(Listops, TooRareExpressionsAreRefused) {
  TaskOptions options{"listops", {{"listops_args", 2}, {"listops_min", 1400}}};
  expect_error(ErrorKind::usage, {"none of 1000000", "`listops_min`"}, [&] { make_task(options); });
}

}  // namespace
}  // namespace linea
