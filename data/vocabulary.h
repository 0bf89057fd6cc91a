// The tokens of a text: its distinct Unicode characters if it is valid UTF-8, its distinct bytes
// otherwise, in ascending order; or all 256 bytes; or byte pairs (data/byte_pairs.h). Token s of a
// model is the s-th of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_pairs.h"

namespace linea {

class Vocabulary {
 public:
  enum class Kind { characters, bytes, byte_pairs };

  // `name`: of the file, for errors.
  static Vocabulary from_text(std::string_view text, const std::string& name);

  // All 256 bytes.
  static Vocabulary all_bytes();
  static Vocabulary of_pairs(BytePairs pairs);

  // Parses the output of serialize(), with checks: it may come from a damaged file.
  //   {"kind":"characters","tokens":[10,32,97]}     code points, or with "bytes" bytes; ascending
  //   {"kind":"byte_pairs","merges":[[101,32],[116,256]],"tokens":258,"words":"spaced"}
  // "words" names the rule of first_word().
  static Vocabulary parse(const std::string& json);
  std::string serialize() const;

  Kind kind() const { return kind_; }
  int64_t size() const { return pairs_ ? pairs_->size() : static_cast<int64_t>(codes_.size()); }
  // The merges of Kind::byte_pairs.
  const BytePairs& pairs() const { return *pairs_; }
  // The bytes of each token.
  std::vector<int32_t> token_bytes() const;
  // Those of a character (1 for Kind::bytes).
  size_t character_bytes(int32_t token) const;

  // The input before the first token of a text: the newline if the vocabulary has it, else token 0.
  int32_t start_token() const;

  // `what` names the text in errors, which give the first unknown character and its position (in
  // characters, or in bytes for Kind::bytes, from 1).
  std::vector<int32_t> encode(std::string_view text, const std::string& what = "prompt") const;
  // Characters or bytes of a part of a text, in which `before` of them come before it; appended.
  void encode_part(std::string_view part, const std::string& what, int64_t before,
                   std::vector<int32_t>& tokens) const;
  std::string decode(const std::vector<int32_t>& tokens) const;

  // The tokens that the other lacks, for errors; empty where one has characters and one bytes.
  std::vector<std::string> missing_from(const Vocabulary& other) const;

  // The first difference from another vocabulary, for errors: "character 'x' (U+0078) is new", or
  // "... is missing"; empty where the tokens are the same.
  std::string difference_from(const Vocabulary& other) const;

 private:
  friend class VocabularyScan;
  Vocabulary(Kind kind, std::vector<char32_t> codes);

  bool has(char32_t code) const;
  // The end of the error of an unknown character: where the vocabulary has it in the other form of
  // Unicode (data/composition.h), how to convert the text.
  std::string remedy_for(char32_t code, char32_t before, std::string_view rest) const;

  Kind kind_;
  std::vector<char32_t> codes_;       // code points or bytes, ascending
  std::vector<int32_t> token_of_;     // by code; kNoToken where there is none
  std::optional<BytePairs> pairs_{};  // of Kind::byte_pairs, whose codes are the bytes
};

// Finds the characters of a text that comes in blocks.
class VocabularyScan {
 public:
  // A block ends after a character, if the text is UTF-8.
  void add(std::string_view block);

  // The position of the first byte that is not UTF-8; the size of the text where it is all valid.
  int64_t first_non_utf8() const { return valid_; }
  // Errors: an empty text, too many characters.
  Vocabulary vocabulary(const std::string& name) const;

 private:
  std::vector<bool> characters_;   // seen, up to the largest code
  std::array<bool, 256> seen_{};   // bytes
  int64_t bytes_ = 0, valid_ = 0;  // all; before the first that is not UTF-8
};

// A text that comes in pieces of bytes, in pieces of whole characters of UTF-8: the bytes of a
// character that is not complete are held back. Bytes that are not UTF-8 pass as they are.
class WholeCharacters {
 public:
  std::string add(std::string_view piece);
  std::string rest() { return std::move(held_); }

 private:
  std::string held_;
};

}  // namespace linea
