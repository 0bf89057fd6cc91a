// Words and copied runs of texts, against comparisons of all substrings.
#include "judge/text_judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "tests/data/data_helpers.h"

namespace linea {
namespace {

std::vector<std::string> words_of_text(const std::string& text) {
  std::vector<std::string> words;
  for_each_word(text, [&](const std::string& word) { words.push_back(word); });
  return words;
}

TEST(JudgedText, WordsHaveThreeLetters) {
  EXPECT_EQ(
      words_of_text("An old OAK, the ro\xC3\xA9 x\xC3\xA9; don't! \xC3\xA9t\xC3\xA9s 12345 end"),
      (std::vector<std::string>{"old", "oak", "the", "ro\xC3\xA9", "don", "\xC3\xA9t\xC3\xA9s",
                                "end"}));
  EXPECT_TRUE(words_of_text("").empty());
  const KnownWords known = count_known("The cat THE dog is", {"the", "dog", "is"});
  EXPECT_EQ(known.words, 4);
  EXPECT_EQ(known.known, 3);
  EXPECT_EQ(known.share(), 0.75);
  EXPECT_TRUE(std::isnan(count_known("a b", {}).share()));
}

using Tokens = std::vector<int32_t>;

bool occurs(const Tokens& part, const Tokens& in) {
  return std::search(in.begin(), in.end(), part.begin(), part.end()) != in.end();
}

int64_t slow_longest_run(const std::vector<Tokens>& samples, const Tokens& training) {
  int64_t longest = 0;
  for (const Tokens& sample : samples)
    for (auto first = sample.begin(); first != sample.end(); ++first)
      while (sample.end() - first > longest && occurs({first, first + longest + 1}, training))
        ++longest;
  return longest;
}

TEST(JudgedText, TheLongestRunIsThatOfAllSubstrings) {
  for (uint32_t trial = 1; trial < 60; ++trial) {
    const RandomStream stream{11, Purpose::test, trial, 0};
    uint64_t index = 0;
    const uint32_t vocabulary = 2 + trial % 3;
    const auto random_tokens = [&](uint32_t count) {
      Tokens tokens(count);
      for (int32_t& token : tokens)
        token = static_cast<int32_t>(random_below(stream, index++, vocabulary));
      return tokens;
    };
    std::vector<Tokens> samples;
    for (uint32_t i = 0; i < 1 + trial % 4; ++i) samples.push_back(random_tokens(trial));
    const Tokens training = random_tokens(3 * trial);
    const CopiedRun run = longest_copied_run(samples, training);
    EXPECT_EQ(run.length, slow_longest_run(samples, training)) << trial;
    const auto start = training.begin() + run.start;
    EXPECT_TRUE(std::any_of(samples.begin(), samples.end(), [&](const Tokens& sample) {
      return occurs({start, start + run.length}, sample);
    })) << trial;
  }
}

TEST(JudgedText, ARunDoesNotCrossSamples) {
  EXPECT_EQ(longest_copied_run({{1, 2}, {3, 4}}, {1, 2, 3, 4}).length, 2);
  EXPECT_EQ(longest_copied_run({{1, 2, 3, 4}}, {0, 1, 2, 3, 4}).length, 4);
  EXPECT_EQ(longest_copied_run({{1, 2, 3, 4}}, {0, 1, 2, 3, 4}).start, 1);
  EXPECT_EQ(longest_copied_run({{5}}, {1, 2}).length, 0);
  EXPECT_EQ(longest_copied_run({}, {1, 2}).length, 0);
}

class JudgedTask : public DataTest {};

// The text has 100 characters: the first 90 are for training.
TEST_F(JudgedTask, SamplesAreComparedWithTheTrainingText) {
  std::string text;
  while (text.size() < 90) text += "one two ";
  text.resize(90);
  text += " three two";
  TaskOptions options{"text", {{"data", put("text.txt", text)}, {"length", int64_t{8}}}};
  const auto task = make_task(options);
  const Vocabulary vocabulary = Vocabulary::parse(task->serialized_vocabulary());
  const std::string sample = "two one three wow";
  const TextReport report = judge_text(*task, vocabulary, {vocabulary.encode(sample)});
  EXPECT_EQ(report.of_samples.words, 4);
  EXPECT_EQ(report.of_samples.known, 2);
  EXPECT_EQ(report.of_validation.words, 2);
  EXPECT_EQ(report.of_validation.known, 1);
  EXPECT_EQ(report.copied, "two one t");
  EXPECT_EQ(report.run.length, 9);
  EXPECT_EQ(report.validation_run.length, 5);  // "e two"
  EXPECT_FALSE(report.in_bytes);
  // Byte pairs are compared as bytes, however a sample is cut.
  options.settings["tokenizer"] = std::string("bpe");
  const auto pairs_task = make_task(options);
  const Vocabulary pairs = Vocabulary::parse(pairs_task->serialized_vocabulary());
  EXPECT_LT(pairs.encode(sample).size(), sample.size());
  for (const std::vector<int32_t>& tokens :
       {pairs.encode(sample), std::vector<int32_t>(sample.begin(), sample.end())}) {
    const TextReport same = judge_text(*pairs_task, pairs, {tokens});
    EXPECT_TRUE(same.in_bytes);
    EXPECT_EQ(same.of_samples.known, 2);
    EXPECT_EQ(same.copied, "two one t");
    EXPECT_EQ(same.run.length, 9);
    EXPECT_EQ(same.validation_run.length, 5);
  }
}

}  // namespace
}  // namespace linea
