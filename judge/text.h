// Comparison of sampled text with the training text: known words, and copied runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

namespace linea {

// Calls `visit` with each word of a text: runs of at least three letters, in lower case (ASCII).
// Letters are those of ASCII and all other characters of UTF-8.
void for_each_word(const std::string& text, const std::function<void(const std::string&)>& visit);

struct KnownWords {
  int64_t words = 0, known = 0;
  double share() const;  // NaN without words
};
KnownWords count_known(const std::string& text, const std::unordered_set<std::string>& known);

// The longest run of tokens that occurs in one of `samples` and in `training`.
struct CopiedRun {
  int64_t length = 0;
  int64_t start = 0;  // in `training`
};
// By the suffix automaton of the samples (Blumer 1985), which reads the training text once: time
// and memory are proportional to the lengths. Tokens are not negative.
CopiedRun longest_copied_run(const std::vector<std::vector<int32_t>>& samples,
                             const std::vector<int32_t>& training);

}  // namespace linea
