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

// Units in which copies are measured: tokens, but bytes where one text may be cut into byte pairs
// in several ways.
std::vector<int32_t> copied_units(const std::vector<int32_t>& tokens,
                                  const Vocabulary& vocabulary) {
  if (vocabulary.kind() != Vocabulary::Kind::byte_pairs) return tokens;
  std::vector<int32_t> bytes;
  for (const char c : vocabulary.decode(tokens)) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

}  // namespace

TextReport judge_text(const Task& task, const Vocabulary& vocabulary,
                      const std::vector<std::vector<int32_t>>& sampled) {
  const std::vector<int32_t> train = read_tokens(task, Split::train),
                             training = copied_units(train, vocabulary);
  const std::vector<int32_t> val = read_tokens(task, Split::val);
  std::unordered_set<std::string> known;
  for_each_word(vocabulary.decode(train), [&](const std::string& word) { known.insert(word); });
  TextReport report;
  std::vector<std::vector<int32_t>> samples;
  size_t all = 0;
  for (const std::vector<int32_t>& sample : sampled) {
    const KnownWords one = count_known(vocabulary.decode(sample), known);
    report.of_samples.words += one.words;
    report.of_samples.known += one.known;
    samples.push_back(copied_units(sample, vocabulary));
    all += samples.back().size();
  }
  report.of_validation = count_known(vocabulary.decode(val), known);
  report.run = longest_copied_run(samples, training);
  const auto start = training.begin() + report.run.start;
  const std::vector<int32_t> copied(start, start + report.run.length);
  report.in_bytes = vocabulary.kind() == Vocabulary::Kind::byte_pairs;
  report.copied =
      report.in_bytes ? std::string(copied.begin(), copied.end()) : vocabulary.decode(copied);
  std::vector<int32_t> validation = copied_units(val, vocabulary);
  validation.resize(std::min(validation.size(), all));
  report.validation_run = longest_copied_run({validation}, training);
  return report;
}

}  // namespace linea
