#include "judge/text.h"

#include <cctype>
#include <cmath>
#include <map>

namespace linea {
namespace {

constexpr int64_t kMinLetters = 3;
constexpr int32_t kEndOfSample = -1;

bool is_letter(unsigned char byte) { return byte >= 0x80 || std::isalpha(byte) != 0; }
bool starts_character(unsigned char byte) { return (byte & 0xC0) != 0x80; }

// The states of a suffix automaton are the sets of substrings that end at the same positions;
// `length` is that of the longest, `link` the state of the longest suffix in another set.
class SuffixAutomaton {
 public:
  void append(int32_t token) {
    const int32_t state = add({states_[last_].length + 1, 0, {}});
    int32_t from = static_cast<int32_t>(last_);
    last_ = static_cast<size_t>(state);
    for (; from >= 0 && !has(from, token); from = at(from).link) at(from).next[token] = state;
    if (from < 0) return;
    const int32_t next = at(from).next[token];
    if (at(next).length == at(from).length + 1) {
      at(state).link = next;
      return;
    }
    const int32_t clone = add({at(from).length + 1, at(next).link, at(next).next});
    for (; from >= 0 && has(from, token) && at(from).next[token] == next; from = at(from).link)
      at(from).next[token] = clone;
    at(next).link = at(state).link = clone;
  }

  // The longest substring of `text` that it accepts.
  CopiedRun longest_match(const std::vector<int32_t>& text) const {
    CopiedRun longest;
    int32_t state = 0;
    int64_t length = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      while (state > 0 && !has(state, text[i])) {
        state = at(state).link;
        length = at(state).length;
      }
      if (!has(state, text[i])) continue;
      state = at(state).next.at(text[i]);
      if (++length > longest.length) longest = {length, static_cast<int64_t>(i) + 1 - length};
    }
    return longest;
  }

 private:
  struct State {
    int64_t length;
    int32_t link;  // -1: of the first state
    std::map<int32_t, int32_t> next;
  };

  int32_t add(State state) {
    states_.push_back(std::move(state));
    return static_cast<int32_t>(states_.size() - 1);
  }
  State& at(int32_t state) { return states_[static_cast<size_t>(state)]; }
  const State& at(int32_t state) const { return states_[static_cast<size_t>(state)]; }
  bool has(int32_t state, int32_t token) const { return at(state).next.count(token) != 0; }

  std::vector<State> states_ = {{0, -1, {}}};
  size_t last_ = 0;
};

}  // namespace

void for_each_word(const std::string& text, const std::function<void(const std::string&)>& visit) {
  std::string word;
  int64_t letters = 0;
  const auto end_word = [&] {
    if (letters >= kMinLetters) visit(word);
    word.clear();
    letters = 0;
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (!is_letter(byte)) {
      end_word();
      continue;
    }
    word += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
    letters += starts_character(byte) ? 1 : 0;
  }
  end_word();
}

double KnownWords::share() const {
  return words == 0 ? std::nan("") : static_cast<double>(known) / static_cast<double>(words);
}

KnownWords count_known(const std::string& text, const std::unordered_set<std::string>& known) {
  KnownWords result;
  for_each_word(text, [&](const std::string& word) {
    ++result.words;
    result.known += known.count(word) != 0 ? 1 : 0;
  });
  return result;
}

CopiedRun longest_copied_run(const std::vector<std::vector<int32_t>>& samples,
                             const std::vector<int32_t>& training) {
  SuffixAutomaton automaton;
  for (const std::vector<int32_t>& sample : samples) {
    for (const int32_t token : sample) automaton.append(token);
    automaton.append(kEndOfSample);  // in no training text
  }
  return automaton.longest_match(training);
}

}  // namespace linea
