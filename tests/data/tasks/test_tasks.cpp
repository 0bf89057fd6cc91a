// The tasks that make their own data: digits and copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/random.h"
#include "data/tasks/digits.h"
#include "data/tasks/task.h"
#include "tests/data/data_helpers.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

TaskOptions named(const std::string& task) {
  TaskOptions options;
  options.name = task;
  return options;
}

TaskOptions small_digits() {
  TaskOptions options = named("digits");
  options.settings["size"] = 14;
  options.settings["levels"] = 8;
  options.settings["examples"] = 100;
  return options;
}

std::vector<int32_t> row_of(const std::vector<int32_t>& values, const Batch& batch, int64_t row) {
  return {values.begin() + row * batch.length, values.begin() + (row + 1) * batch.length};
}

TEST(Tasks, UnknownNamesAreRefusedWithAList) {
  expect_error(ErrorKind::usage, {"'digit'", "digits, mnist, cifar10, images, text, copy"},
               [] { make_task(named("digit")); });
  expect_error(ErrorKind::usage, {"''"}, [] { task_shape(named("")); });
}

TEST(Tasks, EvalRowsOutsideOfTheSplitAreRefused) {
  const auto task = make_task(named("copy"));
  for (const auto& [first, rows] : {std::pair{-1, 1}, {0, 0}, {1000, 1}, {990, 11}})
    expect_error(ErrorKind::usage, {"val split", "1000 rows"},
                 [&, first = first, rows = rows] { task->eval_batch(Split::val, first, rows); });
  expect_error(ErrorKind::usage, {"0 rows"}, [&] { task->train_rows(0, 0, 0); });
}

TEST(Digits, DependOnSeedAndIndexOnly) {
  const ImageSet ten = render_digits(3, 0, 10, 14), four = render_digits(3, 4, 4, 14);
  EXPECT_TRUE(std::equal(four.pixels.begin(), four.pixels.end(), ten.pixels.begin() + 4 * 196));
  EXPECT_TRUE(std::equal(four.labels.begin(), four.labels.end(), ten.labels.begin() + 4));
  EXPECT_NE(render_digits(4, 0, 10, 14).pixels, ten.pixels);
}

TEST(Digits, LabelsAreBalancedAndImagesDiffer) {
  const ImageSet set = render_digits(0, 0, 200, 28);
  std::array<int, 10> of_label{};
  std::map<std::vector<uint8_t>, int> seen;
  for (int64_t i = 0; i < 200; ++i) {
    ++of_label[set.labels[static_cast<size_t>(i)]];
    ++seen[{set.pixels.begin() + i * 784, set.pixels.begin() + (i + 1) * 784}];
  }
  for (const int count : of_label) EXPECT_EQ(count, 20);
  EXPECT_EQ(seen.size(), 200u);
  EXPECT_NE(std::vector<uint8_t>(set.labels.begin(), set.labels.begin() + 10),
            std::vector<uint8_t>(set.labels.begin() + 10, set.labels.begin() + 20));
}

TEST(Digits, AreInkOnBlackPaperInsideTheFrame) {
  for (const int64_t side : {14, 28}) {
    const ImageSet set = render_digits(1, 0, 300, side);
    for (int64_t i = 0; i < set.count(); ++i) {
      int64_t ink = 0, edge = 0;
      for (int64_t row = 0; row < side; ++row)
        for (int64_t column = 0; column < side; ++column) {
          const auto place = static_cast<size_t>((i * side + row) * side + column);
          const bool white = set.pixels[place] > 127;
          ink += white;
          edge += white && (row == 0 || column == 0 || row == side - 1 || column == side - 1);
        }
      EXPECT_GT(ink, side * side / 20) << "image " << i;
      EXPECT_LT(ink, side * side / 3) << "image " << i;
      EXPECT_EQ(edge, 0) << "image " << i;
    }
  }
}

// A reader's eye, roughly: the nearest mean image of 1,000 others names the digit.
TEST(Digits, AreDistinguishable) {
  constexpr int64_t kSide = 14, kPixels = kSide * kSide;
  const ImageSet known = render_digits(0, 0, 1000, kSide),
                 asked = render_digits(0, 1000, 500, kSide);
  std::array<std::array<double, kPixels>, 10> mean{};
  for (int64_t i = 0; i < known.count(); ++i)
    for (int64_t p = 0; p < kPixels; ++p)
      mean[known.labels[static_cast<size_t>(i)]][static_cast<size_t>(p)] +=
          known.pixels[static_cast<size_t>(i * kPixels + p)] / 100.0;
  int right = 0;
  for (int64_t i = 0; i < asked.count(); ++i) {
    std::array<double, 10> distance{};
    for (size_t digit = 0; digit < 10; ++digit)
      for (int64_t p = 0; p < kPixels; ++p) {
        const double difference = asked.pixels[static_cast<size_t>(i * kPixels + p)] -
                                  mean[digit][static_cast<size_t>(p)];
        distance[digit] += difference * difference;
      }
    const auto nearest = std::min_element(distance.begin(), distance.end()) - distance.begin();
    right += nearest == asked.labels[static_cast<size_t>(i)];
  }
  EXPECT_GE(right, 450);
}

TEST(Images, LevelsAreEvenAndRoundTrip) {
  for (const int64_t levels : {2, 3, 4, 8, 16, 64, 256}) {
    EXPECT_EQ(gray_to_token(0, levels), 0);
    EXPECT_EQ(gray_to_token(255, levels), levels - 1);
    EXPECT_EQ(token_to_gray(0, levels), 0);
    EXPECT_EQ(token_to_gray(static_cast<int32_t>(levels - 1), levels), 255);
    for (int32_t token = 0; token < levels; ++token)
      EXPECT_EQ(gray_to_token(token_to_gray(token, levels), levels), token);
  }
  EXPECT_EQ(gray_to_token(63, 4), 0);
  EXPECT_EQ(gray_to_token(64, 4), 1);
  EXPECT_EQ(token_to_gray(1, 4), 85);
  EXPECT_EQ(token_to_gray(1, 3), 128);  // 127.5 rounds up
}

TEST(Images, EveryPixelIsScored) {
  const auto task = make_task(small_digits());
  const ImageSet test = render_digits(0, 0, 3, 14);
  EXPECT_EQ(task->vocab_size(), 8);
  EXPECT_EQ(task->input_vocab_size(), 9);
  EXPECT_EQ(task->length(), 196);
  EXPECT_EQ(task->shape().side, 14);
  EXPECT_EQ(task->shape().classes, 0);
  EXPECT_EQ(task->fingerprint(), "");
  EXPECT_EQ(task->rows(Split::train), 100);
  EXPECT_EQ(task->rows(Split::val), kSanitized ? 100 : 1000);
  EXPECT_EQ(task->rows(Split::test), 2000);
  const Batch batch = task->eval_batch(Split::test, 1, 2);
  EXPECT_EQ(batch.rows, 2);
  for (int64_t row = 0; row < 2; ++row) {
    const auto inputs = row_of(batch.inputs, batch, row),
               targets = row_of(batch.targets, batch, row);
    EXPECT_EQ(inputs[0], 8);
    EXPECT_TRUE(std::equal(inputs.begin() + 1, inputs.end(), targets.begin()));
    for (size_t t = 0; t < 196; ++t)
      EXPECT_EQ(targets[t], test.pixels[static_cast<size_t>(row + 1) * 196 + t] / 32);
  }
}

TEST(Images, ClassTokenStandsForTheLabel) {
  TaskOptions options = small_digits();
  options.settings["class_token"] = true;
  const auto task = make_task(options);
  EXPECT_EQ(task->vocab_size(), 8);
  EXPECT_EQ(task->input_vocab_size(), 18);
  EXPECT_EQ(task->shape().classes, 10);
  const ImageSet test = render_digits(0, 0, 20, 14);
  const Batch batch = task->eval_batch(Split::test, 0, 20);
  for (size_t row = 0; row < 20; ++row)
    EXPECT_EQ(batch.inputs[row * 196], 8 + test.labels[row]) << "row " << row;
  for (const int32_t target : batch.targets) EXPECT_LT(target, 8);
}

// In training only, of the same images in any batches, and nothing else changes.
TEST(Images, ClassDropoutReplacesSomeClasses) {
  TaskOptions options = small_digits();
  options.settings["class_token"] = true;
  const auto with = make_task(options);
  EXPECT_EQ(with->shape().no_class, -1);
  options.settings["class_dropout"] = 0.25;
  const auto dropped = make_task(options);
  EXPECT_EQ(dropped->shape().no_class, 18);
  EXPECT_EQ(dropped->shape().classes, 10);
  EXPECT_EQ(dropped->input_vocab_size(), 19);
  int64_t dropped_count = 0, rows = 0;
  for (uint64_t step = 0; step < 50; ++step) {
    const Batch expected = with->train_rows(3, step * 20, 20),
                found = dropped->train_rows(3, step * 20, 20);
    EXPECT_EQ(found.targets, expected.targets);
    for (size_t i = 0; i < found.inputs.size(); ++i) {
      if (i % 196 == 0) ++rows;
      if (found.inputs[i] == expected.inputs[i]) continue;
      EXPECT_EQ(i % 196, 0u);
      EXPECT_EQ(found.inputs[i], 18);
      ++dropped_count;
    }
  }
  EXPECT_NEAR(static_cast<double>(dropped_count), 0.25 * static_cast<double>(rows), 70);  // 5 sigma
  const Batch wide = dropped->train_rows(3, 0, 40), narrow = dropped->train_rows(3, 20, 20);
  EXPECT_EQ(row_of(wide.inputs, wide, 25), row_of(narrow.inputs, narrow, 5));
  EXPECT_EQ(dropped->eval_batch(Split::val, 0, 20).inputs,
            with->eval_batch(Split::val, 0, 20).inputs);
  options.settings["class_token"] = false;
  expect_error(ErrorKind::usage, {"`class_dropout` 0.25", "`class_token`"},
               [&] { make_task(options); });
}

TEST(Images, OneEpochVisitsEveryImageOnce) {
  const auto task = make_task(small_digits());
  std::map<std::vector<int32_t>, int64_t> index;
  const Batch all = task->eval_batch(Split::train, 0, 100);
  for (int64_t i = 0; i < 100; ++i) index[row_of(all.targets, all, i)] = i;
  ASSERT_EQ(index.size(), 100u);
  const auto order = [&](uint64_t seed, uint64_t first_example) {
    std::vector<int64_t> images;
    for (uint64_t step = first_example / 20; step < first_example / 20 + 5; ++step) {
      const Batch batch = task->train_rows(seed, step * 20, 20);
      for (int64_t row = 0; row < 20; ++row)
        images.push_back(index.at(row_of(batch.targets, batch, row)));
    }
    return images;
  };
  std::vector<int64_t> epoch = order(7, 0);
  EXPECT_EQ(order(7, 0), epoch);
  EXPECT_NE(order(7, 100), epoch);
  EXPECT_NE(order(8, 0), epoch);
  std::sort(epoch.begin(), epoch.end());
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(epoch[i], static_cast<int64_t>(i));
  // The order of the examples does not depend on how they are cut into batches.
  const Batch wide = task->train_rows(7, 0, 40), narrow = task->train_rows(7, 20, 20);
  EXPECT_EQ(row_of(wide.inputs, wide, 20), row_of(narrow.inputs, narrow, 0));
}

TEST(Digits, SplitsShareNoImage) {
  TaskOptions more = small_digits();
  more.settings["examples"] = 50;
  const auto task = make_task(small_digits()), other = make_task(more);
  std::map<std::vector<int32_t>, int> seen;
  for (const Split split : {Split::train, Split::val, Split::test}) {
    const Batch batch = task->eval_batch(split, 0, task->rows(split));
    for (int64_t row = 0; row < batch.rows; ++row) ++seen[row_of(batch.targets, batch, row)];
  }
  EXPECT_EQ(seen.size(), kSanitized ? 2200u : 3100u);
  EXPECT_EQ(task->eval_batch(Split::val, 0, 50).targets,
            other->eval_batch(Split::val, 0, 50).targets);
}

TEST(Digits, ImpossibleOptionsAreRefused) {
  const auto refused = [](auto change, const std::string& fragment) {
    TaskOptions options = small_digits();
    change(options);
    expect_error(ErrorKind::usage, {fragment}, [&] { task_shape(options); });
  };
  refused([](TaskOptions& o) { o.settings["size"] = 4; }, "`size` is 4");
  refused([](TaskOptions& o) { o.settings["size"] = -1; }, "`size` is -1");
  refused([](TaskOptions& o) { o.settings["levels"] = 1; }, "`levels` is 1");
  refused([](TaskOptions& o) { o.settings["levels"] = 257; }, "`levels` is 257");
  refused([](TaskOptions& o) { o.settings["length"] = 784; }, "no setting `length`");
  refused([](TaskOptions& o) { o.settings["examples"] = -5; }, "`examples` is -5");
  refused([](TaskOptions& o) { o.settings["data"] = "folder"; }, "no setting `data`");
}

// The tokens of the images that the other task predicts, then the question for their class.
TEST(Images, ClassesArePredictedAfterTheLastToken) {
  TaskOptions options = small_digits();
  options.settings["class_token"] = true;
  const auto pixels = make_task(options);
  options = small_digits();
  options.settings["predict"] = std::string("class");
  options.settings["answer_tokens"] = 2;
  const auto classes = make_task(options);
  EXPECT_EQ(classes->length(), 198);
  EXPECT_EQ(classes->vocab_size(), 10);
  EXPECT_EQ(classes->input_vocab_size(), 9);
  EXPECT_EQ(classes->shape().answer_tokens, 2);
  EXPECT_EQ(classes->shape().classes, 0);
  for (const bool trains : {true, false}) {
    const auto batch_of = [&](const Task& task) {
      return trains ? task.train_rows(3, 20, 20) : task.eval_batch(Split::test, 40, 20);
    };
    const Batch known = batch_of(*pixels), asked = batch_of(*classes);
    EXPECT_TRUE(asked.lengths.empty());
    for (int64_t row = 0; row < 20; ++row) {
      std::vector<int32_t> tokens = row_of(known.targets, known, row), targets(197, kNotScored);
      tokens.insert(tokens.end(), {8, 8});
      targets.push_back(row_of(known.inputs, known, row)[0] - 8);
      EXPECT_EQ(row_of(asked.inputs, asked, row), tokens);
      EXPECT_EQ(row_of(asked.targets, asked, row), targets);
    }
  }
  options.settings["class_token"] = true;
  expect_error(ErrorKind::usage, {"`class_token`", "`predict` class"},
               [&] { task_shape(options); });
  options = small_digits();
  options.settings["answer_tokens"] = 2;
  expect_error(ErrorKind::usage, {"`answer_tokens`", "`predict` class"},
               [&] { task_shape(options); });
}

TEST(Images, GrayIsOneChannel) {
  TaskOptions options = named("cifar10");
  options.settings["gray"] = true;
  options.settings["predict"] = std::string("class");
  const TaskShape shape = task_shape(options);
  EXPECT_EQ(shape.channels, 1);
  EXPECT_EQ(shape.length, 1025);
  EXPECT_EQ(shape.vocab_size, 10);
  options.settings["channels"] = 3;
  expect_error(ErrorKind::usage, {"`gray`", "`channels` 3"}, [&] { task_shape(options); });
}

TEST(Copy, RepeatsTheInput) {
  TaskOptions options = named("copy");
  options.settings["length"] = 12;
  const auto task = make_task(options);
  EXPECT_EQ(task->vocab_size(), 11);
  EXPECT_EQ(task->input_vocab_size(), 11);
  constexpr int64_t kString = 5;
  for (const Batch& batch : {task->train_rows(1, 0, 6), task->eval_batch(Split::val, 0, 6)})
    for (int64_t row = 0; row < 6; ++row) {
      const auto inputs = row_of(batch.inputs, batch, row),
                 targets = row_of(batch.targets, batch, row);
      ASSERT_EQ(inputs.size(), 12u);
      for (size_t t = 0; t < 12; ++t) {
        const bool separator = t % (kString + 1) == 0;
        EXPECT_EQ(inputs[t] == 10, separator) << t;
        EXPECT_EQ(inputs[t], inputs[t % 6]) << t;
        const bool scored = t >= kString + 1 && t <= 2 * kString;
        EXPECT_EQ(targets[t], scored ? inputs[t + 1] : kNotScored) << t;
      }
    }
}

TEST(Copy, RowsStepsSeedsAndSplitsDiffer) {
  const auto task = make_task(named("copy"));
  EXPECT_EQ(task->length(), 128);
  const auto first_row = [](const Batch& batch) { return row_of(batch.inputs, batch, 0); };
  const Batch batch = task->train_rows(0, 0, 2);
  EXPECT_EQ(task->train_rows(0, 0, 2).inputs, batch.inputs);
  EXPECT_NE(row_of(batch.inputs, batch, 1), first_row(batch));
  std::map<std::vector<int32_t>, int> seen;
  ++seen[first_row(batch)];
  ++seen[first_row(task->train_rows(0, 2, 2))];
  ++seen[first_row(task->train_rows(1, 0, 2))];
  for (const Split split : {Split::train, Split::val, Split::test})
    for (int64_t row = 0; row < 2; ++row) ++seen[first_row(task->eval_batch(split, row, 1))];
  EXPECT_EQ(seen.size(), 9u);
  std::array<int, 10> of_token{};
  for (const int32_t target : task->eval_batch(Split::val, 0, 1000).targets)
    if (target != kNotScored) ++of_token[static_cast<size_t>(target)];
  for (const int count : of_token) EXPECT_NEAR(count, 6300, 400);  // 5 standard deviations
}

// As in earlier versions, which had no setting for them; and an example has a stream of its own.
TEST(Copy, TenTokensAreTheDefault) {
  TaskOptions options = named("copy");
  options.settings["length"] = 12;
  const Batch batch = make_task(options)->train_rows(1, 6, 2);
  options.settings["copy_tokens"] = 10;
  EXPECT_EQ(make_task(options)->train_rows(1, 6, 2).inputs, batch.inputs);
  const RandomStream stream{1, Purpose::task, 0, 7};
  for (uint64_t i = 1; i <= 5; ++i)
    EXPECT_EQ(batch.inputs[12 + i], static_cast<int32_t>(random_below(stream, i, 10)));
}

TEST(Copy, HasAsManyTokensAsAskedFor) {
  TaskOptions options = named("copy");
  options.settings["copy_tokens"] = 127;
  const auto task = make_task(options);
  EXPECT_EQ(task->vocab_size(), 128);
  EXPECT_EQ(task->shape().start, 127);
  const Batch batch = task->eval_batch(Split::val, 0, 200);
  std::array<int, 128> of_token{};
  for (const int32_t target : batch.targets)
    if (target != kNotScored) ++of_token.at(static_cast<size_t>(target));
  EXPECT_EQ(of_token[127], 0);
  for (size_t token = 0; token < 127; ++token) EXPECT_NEAR(of_token[token], 99, 50);
  options.settings["copy_tokens"] = 1;
  expect_error(ErrorKind::usage, {"`copy_tokens` is 1"}, [&] { task_shape(options); });
}

TEST(Copy, ImpossibleLengthsAreRefused) {
  for (const int64_t length : {-2, 2, 7}) {
    TaskOptions options = named("copy");
    options.settings["length"] = length;
    expect_error(ErrorKind::usage,
                 {"`length` is " + std::to_string(length), length > 0 ? "even" : "at least 1"},
                 [&] { task_shape(options); });
  }
}

}  // namespace
}  // namespace linea
