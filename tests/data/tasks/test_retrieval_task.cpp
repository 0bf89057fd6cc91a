// The retrieval task: what is written, what is asked for, and that no two batches share numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "data/tasks/task.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

using Tokens = std::vector<int32_t>;

TaskOptions retrieval(int64_t associations, bool repeat = false) {
  TaskOptions options;
  options.name = "retrieval";
  if (associations > 0) options.settings["associations"] = associations;
  options.settings["repeat_keys"] = repeat;
  return options;
}

struct Row {
  Tokens keys, values;
  int32_t query = 0, no_value = 0, answer = 0;

  bool operator<(const Row& other) const {
    return std::tie(keys, values, query) < std::tie(other.keys, other.values, other.query);
  }
};

Row row_of(const Batch& batch, int64_t row) {
  const auto first = row * batch.length, last = first + batch.length - 1;
  const auto end = static_cast<size_t>(last);
  return {{batch.inputs.begin() + first, batch.inputs.begin() + last},
          {batch.second_inputs.begin() + first, batch.second_inputs.begin() + last},
          batch.inputs[end],
          batch.second_inputs[end],
          batch.targets[end]};
}

std::vector<Row> rows_in(const Batch& batch) {
  std::vector<Row> rows;
  for (int64_t row = 0; row < batch.rows; ++row) rows.push_back(row_of(batch, row));
  return rows;
}

// Rows of training and of an evaluation, which are filled through different streams.
std::vector<Row> rows_in(const Task& task) {
  std::vector<Row> rows = rows_in(task.train_rows(3, 2500, 500));
  for (const Row& row : rows_in(task.eval_batch(Split::val, 0, 1000))) rows.push_back(row);
  return rows;
}

Tokens sorted(Tokens tokens) {
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

Tokens one_of_each(int32_t count) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(Retrieval, ShapesCountKeysValuesAndTheQuestion) {
  const TaskShape capacity = task_shape(retrieval(6)), edit = task_shape(retrieval(6, true));
  EXPECT_EQ(capacity.length, 7);
  EXPECT_EQ(edit.length, 13);
  for (const TaskShape& shape : {capacity, edit}) {
    EXPECT_EQ(shape.vocab_size, 6);
    EXPECT_EQ(shape.input_vocab_size, 6);
    EXPECT_EQ(shape.second_vocab_size, 7);
    EXPECT_EQ(shape.side, 0);
  }
  EXPECT_EQ(task_shape({"retrieval"}).length, 21);
  EXPECT_EQ(task_shape({"retrieval", {{"repeat_keys", true}}}).length, 41);
  // Other tasks have no second stream.
  TaskOptions copy;
  copy.name = "copy";
  EXPECT_EQ(task_shape(copy).second_vocab_size, 0);
  EXPECT_TRUE(make_task(copy)->train_rows(0, 0, 1).second_inputs.empty());
}

TEST(Retrieval, OnlyTheQuestionIsScored) {
  for (const bool repeat : {false, true}) {
    const auto task = make_task(retrieval(5, repeat));
    for (const Batch& batch : {task->train_rows(1, 8, 4), task->eval_batch(Split::test, 7, 4)}) {
      ASSERT_EQ(batch.rows, 4);
      ASSERT_EQ(batch.length, task->length());
      const auto tokens = static_cast<size_t>(batch.rows * batch.length);
      ASSERT_EQ(batch.inputs.size(), tokens);
      ASSERT_EQ(batch.targets.size(), tokens);
      ASSERT_EQ(batch.second_inputs.size(), tokens);
      for (size_t i = 0; i < tokens; ++i) {
        const bool question = (i + 1) % static_cast<size_t>(batch.length) == 0;
        EXPECT_EQ(batch.targets[i] != kNotScored, question) << i;
        EXPECT_EQ(batch.second_inputs[i] == 5, question) << i;
        EXPECT_TRUE(batch.inputs[i] >= 0 && batch.inputs[i] < 5) << i;
        EXPECT_TRUE(batch.second_inputs[i] >= 0 && batch.second_inputs[i] <= 5) << i;
        EXPECT_LT(batch.targets[i], 5) << i;
      }
    }
  }
}

TEST(Retrieval, CapacityWritesEveryKeyAndEveryValueOnce) {
  const auto task = make_task(retrieval(7));
  for (const Row& row : rows_in(*task)) {
    ASSERT_EQ(sorted(row.keys), one_of_each(7));
    ASSERT_EQ(sorted(row.values), one_of_each(7));
  }
}

// 3! orders of the keys, times 3! of the values, times 3 questions: 108 sequences, each as likely.
TEST(Retrieval, CapacitySequencesAreAllEquallyLikely) {
  const auto task = make_task(retrieval(3));
  std::map<Row, int> count;
  for (const Row& row : rows_in(task->train_rows(0, 0, 108 * 400))) ++count[row];
  EXPECT_EQ(count.size(), 108u);
  for (const auto& [row, times] : count) EXPECT_NEAR(times, 400, 100);  // 5 standard deviations
}

// 2^4 keys, 2^4 values and 4 questions; two questions for one key give the same sequence.
TEST(Retrieval, EditDrawsEveryWriteOnItsOwn) {
  const auto task = make_task(retrieval(2, true));
  std::map<Row, int> count;
  for (const Row& row : rows_in(task->train_rows(0, 0, 1024 * 100))) ++count[row];
  EXPECT_EQ(count.size(), 16u * 16u * 2u - 2u * 16u);  // of one key alone no other can be asked
  for (const auto& [row, times] : count) {
    const auto writes = std::count(row.keys.begin(), row.keys.end(), row.query);
    EXPECT_NEAR(times, 100 * writes, 60 * std::sqrt(writes));  // 6 standard deviations
  }
}

TEST(Retrieval, TheAnswerIsTheValueWrittenLast) {
  for (const bool repeat : {false, true}) {
    const auto task = make_task(retrieval(6, repeat));
    int64_t replaced = 0, asked_first = 0, asked_last = 0;
    for (const Row& row : rows_in(*task)) {
      std::map<int32_t, int32_t> memory, earliest;
      for (size_t i = 0; i < row.keys.size(); ++i) {
        memory[row.keys[i]] = row.values[i];
        earliest.try_emplace(row.keys[i], row.values[i]);
      }
      ASSERT_EQ(memory.count(row.query), 1u);
      ASSERT_EQ(row.answer, memory[row.query]);
      replaced += row.answer != earliest[row.query];
      asked_first += row.query == row.keys.front();
      asked_last += row.query == row.keys.back();
    }
    // In the edit task the first value would be wrong for about 0.7 of the questions.
    EXPECT_EQ(replaced > 900, repeat) << replaced;
    EXPECT_EQ(replaced == 0, !repeat) << replaced;
    EXPECT_GT(asked_first, 150);  // 250 are expected, more in the edit task
    EXPECT_GT(asked_last, 150);
  }
}

TEST(Retrieval, EveryKeyIsAskedForAndEveryValueAnswered) {
  for (const bool repeat : {false, true}) {
    const auto task = make_task(retrieval(0, repeat));
    for (const Split split : {Split::train, Split::val, Split::test}) {
      std::map<int32_t, int> queries, answers;
      for (const Row& row : rows_in(task->eval_batch(split, 0, 1000))) {
        ++queries[row.query];
        ++answers[row.answer];
      }
      EXPECT_EQ(queries.size(), 20u);
      EXPECT_EQ(answers.size(), 20u);
      for (const auto& [value, times] : answers)
        EXPECT_NEAR(times, 50, 35) << value;  // 5 standard deviations
    }
  }
}

TEST(Retrieval, BatchesAreFunctionsOfSeedAndStep) {
  for (const bool repeat : {false, true}) {
    const auto task = make_task(retrieval(10, repeat)), again = make_task(retrieval(10, repeat));
    const Batch batch = task->train_rows(4, 72, 8), same = again->train_rows(4, 72, 8);
    EXPECT_EQ(batch.inputs, same.inputs);
    EXPECT_EQ(batch.second_inputs, same.second_inputs);
    EXPECT_EQ(batch.targets, same.targets);
    const Batch all = task->eval_batch(Split::val, 0, 20),
                part = again->eval_batch(Split::val, 15, 5);
    for (int64_t row = 0; row < 5; ++row) {
      EXPECT_EQ(row_of(part, row).keys, row_of(all, 15 + row).keys);
      EXPECT_EQ(row_of(part, row).values, row_of(all, 15 + row).values);
      EXPECT_EQ(row_of(part, row).answer, row_of(all, 15 + row).answer);
    }
  }
}

// With ten keys no sequence comes twice by chance, and neither do its keys alone or values alone.
TEST(Retrieval, RowsStepsSeedsAndSplitsDiffer) {
  for (const bool repeat : {false, true}) {
    TaskOptions options = retrieval(10, repeat);
    const auto task = make_task(options);
    options.seed = 1;
    const auto other = make_task(options);
    // Training and evaluation with the same seed, and with rows and steps of the same number.
    std::vector<Batch> batches;
    for (const uint64_t seed : {0, 1})
      for (const uint64_t step : {0, 1, 2}) batches.push_back(task->train_rows(seed, step * 3, 3));
    for (const Split split : {Split::train, Split::val, Split::test}) {
      batches.push_back(task->eval_batch(split, 0, 3));
      batches.push_back(other->eval_batch(split, 0, 3));
    }
    std::set<Tokens> keys, values, both;
    for (const Batch& batch : batches)
      for (const Row& row : rows_in(batch)) {
        keys.insert(row.keys);
        values.insert(row.values);
        both.insert(row.keys);
        both.insert(row.values);
      }
    EXPECT_EQ(keys.size(), 36u);
    EXPECT_EQ(values.size(), 36u);
    EXPECT_EQ(both.size(), 72u);  // keys and values share no numbers either
  }
}

TEST(Retrieval, ASplitHasAFixedNumberOfRows) {
  const auto task = make_task(retrieval(4));
  for (const Split split : {Split::train, Split::val, Split::test})
    EXPECT_EQ(task->rows(split), 1000);
  for (const auto& [first, rows] : {std::pair{-1, 1}, {0, 0}, {1000, 1}, {990, 11}})
    expect_error(ErrorKind::usage, {"val split", "1000 rows"},
                 [&, first = first, rows = rows] { task->eval_batch(Split::val, first, rows); });
  expect_error(ErrorKind::usage, {"0 rows"}, [&] { task->train_rows(0, 0, 0); });
}

TEST(Retrieval, ImpossibleOptionsAreRefused) {
  const auto refused = [](auto change, std::initializer_list<std::string> fragments) {
    TaskOptions options = retrieval(4);
    change(options);
    expect_error(ErrorKind::usage, fragments, [&] { task_shape(options); });
    expect_error(ErrorKind::usage, fragments, [&] { make_task(options); });
  };
  refused([](TaskOptions& o) { o.settings["associations"] = 0; },
          {"`associations` is 0", "1..1048576"});
  refused([](TaskOptions& o) { o.settings["associations"] = -1; }, {"`associations` is -1"});
  refused([](TaskOptions& o) { o.settings["associations"] = 1048577; }, {"1048577", "1..1048576"});
  for (const char* key : {"length", "size", "levels", "examples"})
    refused([&](TaskOptions& o) { o.settings[key] = 4; },
            {"task retrieval", fmt::format("`{}`", key)});
  refused([](TaskOptions& o) { o.settings["data"] = "folder"; }, {"task retrieval", "`data`"});
  refused([](TaskOptions& o) { o.settings["class_token"] = true; }, {"`class_token`"});
  refused([](TaskOptions& o) { o.vocabulary = "x"; }, {"task retrieval has no vocabulary"});
}

TEST(Retrieval, OneAssociationHasOneAnswer) {
  EXPECT_EQ(make_task(retrieval(1))->train_rows(0, 0, 1).targets, (Tokens{kNotScored, 0}));
}

TEST(Retrieval, OtherTasksRefuseItsOptions) {
  for (const std::string name : {"digits", "mnist", "text", "copy"}) {
    TaskOptions options;
    options.name = name;
    options.settings["repeat_keys"] = true;
    expect_error(ErrorKind::usage, {"task " + name, "`repeat_keys`"}, [&] { task_shape(options); });
    options.settings = {{"associations", 20}};
    expect_error(ErrorKind::usage, {"task " + name, "`associations`"}, [&] { make_task(options); });
  }
}

}  // namespace
}  // namespace linea
