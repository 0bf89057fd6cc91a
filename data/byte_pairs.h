// Byte-pair tokens (Gage 1994, Sennrich 2016). Tokens 0 .. 255 are the bytes; token 256 + i joins
// the two tokens of merge i. A text is cut into words, and pairs are joined inside of words only.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace linea {

constexpr int64_t kByteTokens = 256;
constexpr int64_t kMaxPairTokens = 65536;  // of 16 bits each
constexpr size_t kMaxWordBytes = 64;       // and of a token

// Two adjacent tokens.
struct BytePair {
  uint16_t first = 0, second = 0;
  auto operator<=>(const BytePair&) const = default;
};

// For tables of words that are looked up by views.
struct HashText {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <typename Value>
using ByWord = std::unordered_map<std::string, Value, HashText, std::equal_to<>>;

// The bytes of the first word of a text that is not empty. A word is a run of letters after at most
// one space or apostrophe, a run of digits or of other marks after at most one space, a run of line
// ends, or a run of other white space, whose last space belongs to the word after it. Letters are
// those of ASCII and all bytes from 128 on. A longer word ends after at most kMaxWordBytes, between
// two characters of UTF-8. It depends on the first kMaxWordBytes + 1 bytes.
size_t first_word(std::string_view text);

// Cuts a text that comes in blocks into its words.
class WordSplitter {
 public:
  explicit WordSplitter(std::function<void(std::string_view)> visit) : visit_(std::move(visit)) {}
  void add(std::string_view block);
  void finish();  // no block may follow

 private:
  size_t visit_words(std::string_view text, size_t lookahead);

  std::function<void(std::string_view)> visit_;
  std::string rest_;  // of the blocks so far: where the last word may be longer
};

// The merges that give at most `tokens` tokens, the bytes among them. Each joins the most frequent
// pair of adjacent tokens in the words as joined so far, the smallest (first, second) of several;
// overlapping pairs count, as twice in "aaa". Fewer merges where no pair occurs twice.
// Time and memory grow with the distinct words, not with the text.
std::vector<BytePair> learn_byte_pairs(const ByWord<int64_t>& counts, int64_t tokens);

class BytePairs {
 public:
  // Error: ErrorKind::input, merges that no text gives: a token that does not exist yet, a pair
  // twice, a token of more than kMaxWordBytes, too many.
  explicit BytePairs(std::vector<BytePair> merges);

  const std::vector<BytePair>& merges() const { return merges_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  const std::string& bytes(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }

  // Appends the tokens of a word: the first merge that fits is made everywhere, then the next.
  void encode_word(std::string_view word, std::vector<uint16_t>& tokens) const;

 private:
  std::vector<BytePair> merges_;
  std::vector<std::string> bytes_;                    // of each token
  std::unordered_map<uint32_t, uint16_t> joined_by_;  // the token that a pair makes, by its key
};

// The tokens of a text that comes in blocks. Remembers those of words, so that a long text takes
// about the time of looking up its words.
class BytePairEncoder {
 public:
  // Keeps references.
  BytePairEncoder(const BytePairs& pairs, std::vector<uint16_t>& tokens);
  void add(std::string_view block) { splitter_.add(block); }
  void finish() { splitter_.finish(); }

 private:
  void encode(std::string_view word);

  const BytePairs& pairs_;
  std::vector<uint16_t>& tokens_;
  ByWord<std::vector<uint16_t>> known_;
  WordSplitter splitter_;
};

}  // namespace linea
