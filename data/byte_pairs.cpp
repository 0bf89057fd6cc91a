#include "data/byte_pairs.h"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "base/error.h"

namespace linea {
namespace {

constexpr size_t kKnownWords = 1 << 17;  // that an encoder remembers, some 15 MB

enum class ByteKind { letter, digit, mark, line_end, space };

ByteKind kind_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'))
    return ByteKind::letter;
  if (byte >= '0' && byte <= '9') return ByteKind::digit;
  if (byte == '\n' || byte == '\r') return ByteKind::line_end;
  return byte == ' ' || byte == '\t' ? ByteKind::space : ByteKind::mark;
}

bool is_white(ByteKind kind) { return kind == ByteKind::line_end || kind == ByteKind::space; }

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

uint32_t key_of(uint16_t first, uint16_t second) { return uint32_t{first} << 16 | second; }

// Learns merges from distinct words and how often each occurs.
class Learner {
 public:
  explicit Learner(const ByWord<int64_t>& counts) {
    for (const auto& [text, count] : counts) {
      require(text.size() <= kMaxWordBytes, "a word has {} bytes, at most {} are possible",
              text.size(), kMaxWordBytes);
      if (text.size() < 2) continue;
      const Word word{tokens_.size(), static_cast<uint32_t>(text.size()), count};
      for (const char c : text) tokens_.push_back(static_cast<unsigned char>(c));
      const auto number = static_cast<uint32_t>(words_.size());
      words_.push_back(word);
      for (size_t i = word.start; i + 1 < tokens_.size(); ++i)
        add(key_of(tokens_[i], tokens_[i + 1]), number);
    }
    queue_added();
  }

  std::vector<BytePair> learn(int64_t tokens) {
    std::vector<BytePair> merges;
    for (int64_t token = kByteTokens; token < tokens && refresh_top(); ++token) {
      const uint32_t key = queue_.top().key;
      queue_.pop();
      const BytePair pair{static_cast<uint16_t>(key >> 16), static_cast<uint16_t>(key & 0xFFFF)};
      merges.push_back(pair);
      const std::vector<uint32_t> affected = std::move(pairs_[key].words);
      for (const uint32_t word : affected) join(word, pair, static_cast<uint16_t>(token));
      pairs_.erase(key);
      queue_added();
    }
    return merges;
  }

 private:
  struct Word {
    size_t start;     // in tokens_
    uint32_t length;  // tokens, fewer after each merge
    int64_t count;    // in the text
  };
  struct PairState {
    int64_t count = 0;
    std::vector<uint32_t> words;  // at least those that have the pair; some twice
  };
  struct Candidate {
    int64_t count;
    uint32_t key;
    // Whether the other one is joined first.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  void add(uint32_t key, uint32_t word) {
    PairState& pair = pairs_[key];
    if (pair.words.empty()) added_.push_back(key);
    pair.count += words_[word].count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  }

  void queue_added() {
    for (const uint32_t key : added_) queue_.push({pairs_[key].count, key});
    added_.clear();
  }

  // The counts in the queue are never too small: only pairs with the newest token become more
  // frequent. Brings the most frequent pair to the top; false where none occurs twice.
  bool refresh_top() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      const auto pair = pairs_.find(top.key);
      const int64_t count = pair == pairs_.end() ? 0 : pair->second.count;
      if (count == top.count) return count >= 2;
      queue_.pop();
      if (count > 0) queue_.push({count, top.key});
    }
    return false;
  }

  // Joins a pair in a word, from left to right, and counts the pairs that this takes and gives.
  void join(uint32_t number, BytePair pair, uint16_t token) {
    Word& word = words_[number];
    uint16_t* row = tokens_.data() + word.start;
    std::array<bool, kMaxWordBytes> joined{};  // tokens of the word as it was
    uint32_t length = 0;
    std::array<uint16_t, kMaxWordBytes> after{};
    for (uint32_t i = 0; i < word.length; ++length) {
      const bool fits = i + 1 < word.length && row[i] == pair.first && row[i + 1] == pair.second;
      if (fits) joined[i] = joined[i + 1] = true;
      after[length] = fits ? token : row[i];
      i += fits ? 2 : 1;
    }
    if (length == word.length) return;  // joined before, by another mention of the word
    for (uint32_t i = 0; i + 1 < word.length; ++i)
      if (joined[i] || joined[i + 1]) pairs_[key_of(row[i], row[i + 1])].count -= word.count;
    std::copy_n(after.begin(), length, row);
    word.length = length;
    for (uint32_t i = 0; i + 1 < length; ++i)
      if (row[i] == token || row[i + 1] == token) add(key_of(row[i], row[i + 1]), number);
  }

  std::vector<uint16_t> tokens_;  // of all words
  std::vector<Word> words_;
  std::unordered_map<uint32_t, PairState> pairs_;
  std::vector<uint32_t> added_;  // pairs that are not in the queue yet
  std::priority_queue<Candidate> queue_;
};

}  // namespace

size_t first_word(std::string_view text) {
  const size_t limit = std::min(text.size(), kMaxWordBytes);
  ByteKind kind = kind_of(text[0]);
  size_t end = 1;
  if (text.size() > 1) {
    const ByteKind next = kind_of(text[1]);
    if ((text[0] == ' ' && !is_white(next)) || (text[0] == '\'' && next == ByteKind::letter))
      kind = next;
  }
  while (end < limit && kind_of(text[end]) == kind) ++end;
  if (end == text.size()) return end;
  if (kind == ByteKind::space && end > 1 && text[end - 1] == ' ' && !is_white(kind_of(text[end])))
    return end - 1;
  size_t border = end;
  for (int step = 0; step < 3 && continues_character(text[border]); ++step) --border;
  return kind != ByteKind::letter || continues_character(text[border]) ? end : border;
}

void WordSplitter::add(std::string_view block) {
  rest_.append(block);
  rest_.erase(0, visit_words(rest_, kMaxWordBytes));
}

void WordSplitter::finish() {
  visit_words(rest_, 0);
  rest_.clear();
}

// Returns the bytes of the words, which end where at most `lookahead` bytes are left.
size_t WordSplitter::visit_words(std::string_view text, size_t lookahead) {
  size_t start = 0;
  while (text.size() - start > lookahead) {
    const size_t length = first_word(text.substr(start));
    visit_(text.substr(start, length));
    start += length;
  }
  return start;
}

std::vector<BytePair> learn_byte_pairs(const ByWord<int64_t>& counts, int64_t tokens) {
  return Learner(counts).learn(tokens);
}

BytePairs::BytePairs(std::vector<BytePair> merges) : merges_(std::move(merges)) {
  for (int64_t byte = 0; byte < kByteTokens; ++byte)
    bytes_.emplace_back(1, static_cast<char>(byte));
  for (const auto& [first, second] : merges_) {
    const int64_t token = size();
    if (token >= kMaxPairTokens)
      fail(ErrorKind::input, "there are {} merges, at most {} are possible", merges_.size(),
           kMaxPairTokens - kByteTokens);
    if (first >= token || second >= token)
      fail(ErrorKind::input, "token {} joins {} and {}, which are not tokens before it", token,
           first, second);
    std::string joined = bytes_[first] + bytes_[second];
    if (joined.size() > kMaxWordBytes)
      fail(ErrorKind::input, "token {} has {} bytes, at most {} are possible", token, joined.size(),
           kMaxWordBytes);
    if (!joined_by_.emplace(key_of(first, second), static_cast<uint16_t>(token)).second)
      fail(ErrorKind::input, "token {} joins {} and {}, as a token before it does", token, first,
           second);
    bytes_.push_back(std::move(joined));
  }
}

void BytePairs::encode_word(std::string_view word, std::vector<uint16_t>& tokens) const {
  require(word.size() <= kMaxWordBytes, "a word has {} bytes, at most {} are possible", word.size(),
          kMaxWordBytes);
  constexpr uint32_t kNone = kMaxPairTokens;
  const auto joined = [this](uint16_t first, uint16_t second) -> uint32_t {
    const auto found = joined_by_.find(key_of(first, second));
    return found == joined_by_.end() ? kNone : found->second;
  };
  std::array<uint16_t, kMaxWordBytes> row{};
  std::array<uint32_t, kMaxWordBytes> made{};  // by row[i] and row[i + 1]
  size_t length = word.size();
  for (size_t i = 0; i < length; ++i) row[i] = static_cast<unsigned char>(word[i]);
  for (size_t i = 0; i + 1 < length; ++i) made[i] = joined(row[i], row[i + 1]);
  while (length > 1) {
    const auto pairs = made.begin() + static_cast<ptrdiff_t>(length) - 1;
    const auto earliest = std::min_element(made.begin(), pairs);
    if (*earliest == kNone) break;
    const auto i = static_cast<size_t>(earliest - made.begin());
    row[i] = static_cast<uint16_t>(*earliest);
    std::copy(row.begin() + i + 2, row.begin() + length, row.begin() + i + 1);
    std::copy(earliest + 1, pairs, earliest);
    --length;
    if (i > 0) made[i - 1] = joined(row[i - 1], row[i]);
    if (i + 1 < length) made[i] = joined(row[i], row[i + 1]);
  }
  tokens.insert(tokens.end(), row.begin(), row.begin() + static_cast<ptrdiff_t>(length));
}

BytePairEncoder::BytePairEncoder(const BytePairs& pairs, std::vector<uint16_t>& tokens)
    : pairs_(pairs), tokens_(tokens), splitter_([this](std::string_view word) { encode(word); }) {}

void BytePairEncoder::encode(std::string_view word) {
  const auto found = known_.find(word);
  if (found != known_.end()) {
    tokens_.insert(tokens_.end(), found->second.begin(), found->second.end());
    return;
  }
  const size_t before = tokens_.size();
  pairs_.encode_word(word, tokens_);
  if (known_.size() < kKnownWords)
    known_.emplace(word, std::vector<uint16_t>(tokens_.begin() + static_cast<ptrdiff_t>(before),
                                               tokens_.end()));
}

}  // namespace linea
