#include "data/text_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/hash.h"
#include "data/utf8.h"

namespace linea {
namespace {

constexpr int64_t kStride = 1024;     // characters from offset to offset
constexpr int64_t kHashed = 1 << 18;  // tokens at a time

}  // namespace

TextTokens::TextTokens(std::shared_ptr<const TextSource> source, Vocabulary vocabulary)
    : source_(std::move(source)), vocabulary_(std::move(vocabulary)) {
  const bool has_all_bytes =
      vocabulary_.kind() == Vocabulary::Kind::bytes && vocabulary_.size() == kByteTokens;
  if (vocabulary_.kind() == Vocabulary::Kind::byte_pairs) {
    join_pairs();
  } else {
    if (has_all_bytes)
      size_ = source_->size();
    else
      index_characters();
    train_end_ = size_ * 9 / 10;
  }
}

// Encodes all of the text once, which finds what is not in the vocabulary.
void TextTokens::index_characters() {
  std::vector<int32_t> tokens;
  int64_t bytes = 0;
  source_->for_each_block(0, source_->size(), [&](std::string_view block) {
    tokens.clear();
    vocabulary_.encode_part(block, source_->name() + ":", size_, tokens);
    if (tokens.size() != block.size() || !offsets_.empty()) {
      // All characters so far had one byte, if there are no offsets yet.
      if (offsets_.empty())
        for (int64_t number = 0; number < size_; number += kStride) offsets_.push_back(number);
      size_t position = 0;
      for (size_t i = 0; i < tokens.size(); ++i) {
        if ((size_ + static_cast<int64_t>(i)) % kStride == 0)
          offsets_.push_back(bytes + static_cast<int64_t>(position));
        position += vocabulary_.character_bytes(tokens[i]);
      }
    }
    size_ += static_cast<int64_t>(tokens.size());
    bytes += static_cast<int64_t>(block.size());
  });
}

void TextTokens::join_pairs() {
  const auto append = [&](int64_t first, int64_t end) {
    BytePairEncoder encoder(vocabulary_.pairs(), joined_);
    source_->for_each_block(first, end, [&](std::string_view block) { encoder.add(block); });
    encoder.finish();
  };
  const int64_t cut = pairs_end(*source_);
  append(0, cut);
  train_end_ = static_cast<int64_t>(joined_.size());
  append(cut, source_->size());
  joined_.shrink_to_fit();
  size_ = static_cast<int64_t>(joined_.size());
}

void TextTokens::read(int64_t first, int64_t end, std::vector<int32_t>& tokens) const {
  require(first >= 0 && first <= end && end <= size_, "tokens {} to {} of {}", first, end, size_);
  tokens.clear();
  if (vocabulary_.kind() == Vocabulary::Kind::byte_pairs) {
    tokens.assign(joined_.begin() + first, joined_.begin() + end);
    return;
  }
  std::string buffer;
  const auto encode = [&](int64_t from, int64_t to, int64_t before) {
    vocabulary_.encode_part(source_->read(from, to, buffer), source_->name() + ":", before, tokens);
  };
  if (offsets_.empty()) return encode(first, end, first);
  // Whole strides, of which the first and the last may be cut.
  const int64_t from = first / kStride, to = (end + kStride - 1) / kStride;
  const auto offset = [&](int64_t stride) {
    return stride < static_cast<int64_t>(offsets_.size()) ? offsets_[static_cast<size_t>(stride)]
                                                          : source_->size();
  };
  encode(offset(from), offset(to), from * kStride);
  const auto skipped = first - from * kStride;
  tokens.erase(tokens.begin(), tokens.begin() + skipped);
  tokens.resize(static_cast<size_t>(end - first));
}

std::string TextTokens::train_hash() const {
  Hasher hasher;
  std::vector<int32_t> tokens;
  for (int64_t first = 0; first < train_end_; first += kHashed) {
    read(first, std::min(train_end_, first + kHashed), tokens);
    hasher.update(tokens.data(), tokens.size() * sizeof(int32_t));
  }
  return hasher.hex();
}

int64_t pairs_end(const TextSource& source) {
  const int64_t cut = source.size() * 9 / 10;
  const int64_t first = std::max<int64_t>(0, cut - 4);
  std::string buffer;
  return first + static_cast<int64_t>(whole_characters(source.read(first, cut, buffer)));
}

Vocabulary learn_pairs(const TextSource& source, int64_t tokens) {
  ByWord<int64_t> counts;
  WordSplitter splitter([&](std::string_view word) {
    const auto found = counts.find(word);
    if (found == counts.end())
      counts.emplace(word, 1);
    else
      ++found->second;
  });
  source.for_each_block(0, pairs_end(source), [&](std::string_view block) { splitter.add(block); });
  splitter.finish();
  return Vocabulary::of_pairs(BytePairs(learn_byte_pairs(counts, tokens)));
}

}  // namespace linea
