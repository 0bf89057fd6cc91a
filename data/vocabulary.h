// The tokens of a text: its distinct Unicode characters if it is valid UTF-8, its distinct bytes
// otherwise, in ascending order; or all 256 bytes. Token s of a model is the s-th of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace linea {

class Vocabulary {
 public:
  enum class Kind { characters, bytes };

  // `name`: of the file, for errors.
  static Vocabulary from_text(std::string_view text, const std::string& name);

  // All 256 bytes.
  static Vocabulary all_bytes();

  // Parses the output of serialize(), with checks: it may come from a damaged file.
  static Vocabulary parse(const std::string& json);
  std::string serialize() const;

  Kind kind() const { return kind_; }
  int64_t size() const { return static_cast<int64_t>(codes_.size()); }

  // The input before the first token of a text: the newline if the vocabulary has it, else token 0.
  int32_t start_token() const;

  // `what` names the text in errors, which give the first unknown character and its position (in
  // characters, or in bytes for Kind::bytes, from 1).
  std::vector<int32_t> encode(std::string_view text, const std::string& what = "prompt") const;
  std::string decode(const std::vector<int32_t>& tokens) const;

  // The tokens that the other has not, for errors; empty where one has characters and one bytes.
  std::vector<std::string> missing_from(const Vocabulary& other) const;

  // The first difference from another vocabulary, for errors: "character 'x' (U+0078) is new", or
  // "... is missing"; empty where the tokens are the same.
  std::string difference_from(const Vocabulary& other) const;

 private:
  Vocabulary(Kind kind, std::vector<char32_t> codes);

  bool has(char32_t code) const;
  // The end of the error of an unknown character: where the vocabulary has it in the other form of
  // Unicode (data/composition.h), how to convert the text.
  std::string remedy_for(char32_t code, char32_t before, std::string_view rest) const;

  Kind kind_;
  std::vector<char32_t> codes_;    // code points or bytes, ascending
  std::vector<int32_t> token_of_;  // by code; kNoToken where there is none
};

}  // namespace linea
