// The tokens of a text. Characters and bytes are made when they are read: one byte of the source
// for each byte of the text, and an offset for each 1024th character where some have several
// bytes. Byte pairs are made once: two bytes of memory for each token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/text_source.h"
#include "data/vocabulary.h"

namespace linea {

class TextTokens {
 public:
  // Characters or bytes: the first 90% of them are for training. Error: ErrorKind::input, one that
  // is not in the vocabulary. Byte pairs: those of the first 90% of the bytes (pairs_end) and
  // those of the rest, so that no token is of both.
  TextTokens(std::shared_ptr<const TextSource> source, Vocabulary vocabulary);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int64_t size() const { return size_; }
  int64_t train_end() const { return train_end_; }

  // Tokens [first, end).
  void read(int64_t first, int64_t end, std::vector<int32_t>& tokens) const;

  // The SHA-256 of tokens [0, train_end) as int32.
  std::string train_hash() const;

 private:
  void index_characters();
  void join_pairs();

  std::shared_ptr<const TextSource> source_;
  Vocabulary vocabulary_;
  int64_t size_ = 0, train_end_ = 0;
  std::vector<int64_t> offsets_;  // bytes before character 1024 i; empty where all are one byte
  std::vector<uint16_t> joined_;  // of byte pairs
};

// The end of the bytes whose pairs are learned: the first 90%, to the end of a character.
int64_t pairs_end(const TextSource& source);

// Byte pairs of the bytes before pairs_end(), `tokens` or fewer (learn_byte_pairs).
Vocabulary learn_pairs(const TextSource& source, int64_t tokens);

}  // namespace linea
