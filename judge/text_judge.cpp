#include "judge/text_judge.h"

#include <algorithm>

namespace linea {
namespace {

// The tokens of a split, in order.
std::vector<int32_t> read_tokens(const Task& task, Split split) {
  std::vector<int32_t> tokens;
  for (int64_t row = 0; row < task.rows(split); ++row)
    for (const int32_t token : task.eval_batch(split, row, 1).targets)
      if (token != kNotScored) tokens.push_back(token);
  return tokens;
}

}  // namespace

TextReport judge_text(const Task& task, const Vocabulary& vocabulary,
                      const std::vector<std::vector<int32_t>>& samples) {
  const std::vector<int32_t> training = read_tokens(task, Split::train);
  std::vector<int32_t> validation = read_tokens(task, Split::val);
  std::unordered_set<std::string> known;
  for_each_word(vocabulary.decode(training), [&](const std::string& word) { known.insert(word); });
  TextReport report;
  size_t sampled = 0;
  for (const std::vector<int32_t>& sample : samples) {
    const KnownWords one = count_known(vocabulary.decode(sample), known);
    report.of_samples.words += one.words;
    report.of_samples.known += one.known;
    sampled += sample.size();
  }
  report.of_validation = count_known(vocabulary.decode(validation), known);
  report.run = longest_copied_run(samples, training);
  const auto start = training.begin() + report.run.start;
  report.copied = vocabulary.decode({start, start + report.run.length});
  validation.resize(std::min(validation.size(), sampled));
  report.validation_run = longest_copied_run({validation}, training);
  return report;
}

}  // namespace linea
