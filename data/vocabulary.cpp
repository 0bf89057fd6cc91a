#include "data/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/json.h"
#include "tensor/error.h"

namespace linea {
namespace {

using nlohmann::json;

constexpr char32_t kCodePoints = 0x110000;
constexpr char32_t kNotUtf8 = kCodePoints;
constexpr int64_t kMaxTokens = 65536;
constexpr int32_t kNoToken = -1;
constexpr const char* kWords = "spaced";  // the rule of first_word()

bool is_surrogate(char32_t code) { return code >= 0xD800 && code < 0xE000; }

char32_t byte_at(std::string_view text, size_t position) {
  return static_cast<unsigned char>(text[position]);
}

// Decodes the character at `position` and advances past it; kNotUtf8 where it is not valid.
// Overlong forms, surrogates and codes beyond U+10FFFF are refused, so that encode and decode are
// inverses.
char32_t next_character(std::string_view text, size_t& position) {
  const char32_t first = byte_at(text, position);
  if (first < 0x80) {
    ++position;
    return first;
  }
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC0 || first >= 0xF8 || length > text.size() - position) return kNotUtf8;
  char32_t code = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    const char32_t next = byte_at(text, position + i);
    if ((next & 0xC0) != 0x80) return kNotUtf8;
    code = code << 6 | (next & 0x3F);
  }
  constexpr char32_t kMin[] = {0x80, 0x800, 0x10000};  // of 2, 3 and 4 bytes
  if (code < kMin[length - 2] || code >= kCodePoints || is_surrogate(code)) return kNotUtf8;
  position += length;
  return code;
}

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// For messages: control characters, which could break the line, are shown by number only.
std::string describe(Vocabulary::Kind kind, char32_t code) {
  const auto number = static_cast<uint32_t>(code);
  if (kind != Vocabulary::Kind::characters) return fmt::format("byte 0x{:02X}", number);
  if (code < 0x20 || (code >= 0x7F && code < 0xA0))
    return fmt::format("character U+{:04X}", number);
  std::string shown;
  append_utf8(shown, code);
  return fmt::format("character '{}' (U+{:04X})", shown, number);
}

[[noreturn]] void fail_damaged(const std::string& reason) {
  fail(ErrorKind::input, "the vocabulary is damaged: {}; use another checkpoint", reason);
}

}  // namespace

size_t first_non_utf8(std::string_view text) {
  size_t position = 0;
  while (position < text.size() && next_character(text, position) != kNotUtf8) continue;
  return position;
}

size_t whole_characters(std::string_view text) {
  // A character has at most 4 bytes, so the last one starts in the last 4.
  for (size_t back = 1; back <= std::min<size_t>(4, text.size()); ++back) {
    const char32_t byte = byte_at(text, text.size() - back);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte < 0xC0 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return byte < 0xF8 && length > back ? text.size() - back : text.size();
  }
  return text.size();
}

Vocabulary::Vocabulary(Kind kind, std::vector<char32_t> codes)
    : kind_(kind), codes_(std::move(codes)), token_of_(codes_.back() + 1, kNoToken) {
  for (size_t token = 0; token < codes_.size(); ++token)
    token_of_[codes_[token]] = static_cast<int32_t>(token);
}

Vocabulary Vocabulary::from_text(std::string_view text, const std::string& name) {
  VocabularyScan scan;
  scan.add(text);
  return scan.vocabulary(name);
}

void VocabularyScan::add(std::string_view block) {
  if (valid_ == bytes_) {
    size_t position = 0;
    while (position < block.size()) {
      const char32_t code = next_character(block, position);
      if (code == kNotUtf8) break;
      if (code >= characters_.size()) characters_.resize(code + 1, false);
      characters_[code] = true;
    }
    valid_ += static_cast<int64_t>(position);
  }
  for (const char c : block) seen_[static_cast<unsigned char>(c)] = true;
  bytes_ += static_cast<int64_t>(block.size());
}

Vocabulary VocabularyScan::vocabulary(const std::string& name) const {
  if (bytes_ == 0) fail(ErrorKind::input, "{}: is empty; name a file with text", name);
  const bool utf8 = valid_ == bytes_;
  std::vector<char32_t> codes;
  for (char32_t code = 0; code < (utf8 ? characters_.size() : seen_.size()); ++code)
    if (utf8 ? characters_[code] : seen_[code]) codes.push_back(code);
  if (static_cast<int64_t>(codes.size()) > kMaxTokens)
    fail(ErrorKind::input,
         "{}: has {} distinct characters, at most {} can be tokens; use another text", name,
         codes.size(), kMaxTokens);
  return Vocabulary(utf8 ? Vocabulary::Kind::characters : Vocabulary::Kind::bytes,
                    std::move(codes));
}

Vocabulary Vocabulary::all_bytes() {
  std::vector<char32_t> codes;
  for (char32_t code = 0; code < 256; ++code) codes.push_back(code);
  return Vocabulary(Kind::bytes, std::move(codes));
}

Vocabulary Vocabulary::of_pairs(BytePairs pairs) {
  Vocabulary vocabulary = all_bytes();
  vocabulary.kind_ = Kind::byte_pairs;
  vocabulary.pairs_ = std::move(pairs);
  return vocabulary;
}

std::string Vocabulary::serialize() const {
  if (pairs_) {
    json merges = json::array();
    for (const auto& [first, second] : pairs_->merges()) merges.push_back({first, second});
    return dump_json(
        json{{"kind", "byte_pairs"}, {"merges", merges}, {"tokens", size()}, {"words", kWords}});
  }
  const json document = {{"kind", kind_ == Kind::bytes ? "bytes" : "characters"},
                         {"tokens", std::vector<uint32_t>(codes_.begin(), codes_.end())}};
  return dump_json(document);
}

namespace {

BytePairs parse_pairs(const json& document) {
  if (!document.contains("words") || document["words"] != kWords)
    fail_damaged(fmt::format("its rule of words is not \"{}\"", kWords));
  const json merges = document.value("merges", json());
  if (!merges.is_array()) fail_damaged("it has no list of merges");
  std::vector<BytePair> pairs;
  const auto token = [](const json& merge, size_t place) {
    const json& entry = merge[place];
    const int64_t number = entry.is_number_integer() ? entry.get<int64_t>() : -1;
    if (number < 0 || number >= kMaxPairTokens) fail_damaged("a merge is not of two tokens");
    return static_cast<uint16_t>(number);
  };
  for (const json& merge : merges) {
    if (!merge.is_array() || merge.size() != 2) fail_damaged("a merge is not of two tokens");
    pairs.push_back({token(merge, 0), token(merge, 1)});
  }
  if (document["tokens"] != kByteTokens + static_cast<int64_t>(pairs.size()))
    fail_damaged("it has another number of tokens than its merges give");
  try {
    return BytePairs(std::move(pairs));
  } catch (const Error& error) {
    fail_damaged(error.what());
  }
}

}  // namespace

Vocabulary Vocabulary::parse(const std::string& text) {
  const json document = parse_json(text);
  if (document.is_discarded() || !document.is_object()) fail_damaged("it is not a JSON object");
  if (!document.contains("kind") || !document.contains("tokens"))
    fail_damaged("it has no \"kind\" or no \"tokens\"");
  const json& kind_name = document["kind"];
  if (kind_name == "byte_pairs") return of_pairs(parse_pairs(document));
  if (kind_name != "characters" && kind_name != "bytes")
    fail_damaged("its kind is none of \"characters\", \"bytes\" and \"byte_pairs\"");
  const Kind kind = kind_name == "bytes" ? Kind::bytes : Kind::characters;
  const int64_t limit = kind == Kind::bytes ? 256 : static_cast<int64_t>(kCodePoints);

  const json& tokens = document["tokens"];
  if (!tokens.is_array() || tokens.empty() || tokens.size() > kMaxTokens)
    fail_damaged(fmt::format("its tokens are not a list of 1 to {} numbers", kMaxTokens));
  std::vector<char32_t> codes;
  for (const json& entry : tokens) {
    // An unsigned number beyond int64 wraps to a negative one and fails the range check.
    const int64_t code = entry.is_number_integer() ? entry.get<int64_t>() : -1;
    const bool ascends = codes.empty() || code > static_cast<int64_t>(codes.back());
    if (code < 0 || code >= limit || !ascends ||
        (kind == Kind::characters && is_surrogate(static_cast<char32_t>(code))))
      fail_damaged(
          fmt::format("token {} is not a character above the one before it", codes.size()));
    codes.push_back(static_cast<char32_t>(code));
  }
  return Vocabulary(kind, std::move(codes));
}

int32_t Vocabulary::start_token() const {
  const bool has_newline = U'\n' < token_of_.size() && token_of_[U'\n'] != kNoToken;
  return has_newline ? token_of_[U'\n'] : 0;
}

std::vector<int32_t> Vocabulary::token_bytes() const {
  std::vector<int32_t> bytes;
  for (int32_t token = 0; token < size(); ++token)
    bytes.push_back(static_cast<int32_t>(decode({token}).size()));
  return bytes;
}

size_t Vocabulary::character_bytes(int32_t token) const {
  const char32_t code = codes_[static_cast<size_t>(token)];
  if (kind_ == Kind::bytes || code < 0x80) return 1;
  return code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

std::vector<int32_t> Vocabulary::encode(std::string_view text, const std::string& what) const {
  std::vector<int32_t> tokens;
  if (pairs_) {
    std::vector<uint16_t> short_tokens;
    BytePairEncoder encoder(*pairs_, short_tokens);
    encoder.add(text);
    encoder.finish();
    tokens.assign(short_tokens.begin(), short_tokens.end());
  } else {
    tokens.reserve(text.size());
    encode_part(text, what, 0, tokens);
  }
  return tokens;
}

void Vocabulary::encode_part(std::string_view part, const std::string& what, int64_t before,
                             std::vector<int32_t>& tokens) const {
  const int64_t first = before - static_cast<int64_t>(tokens.size());  // number of tokens[0]
  const auto number = [&] { return first + static_cast<int64_t>(tokens.size()); };
  for (size_t position = 0; position < part.size();) {
    const char32_t code =
        kind_ == Kind::bytes ? byte_at(part, position++) : next_character(part, position);
    if (code == kNotUtf8)
      fail(ErrorKind::input,
           "{} byte 0x{:02X} after {} characters is not UTF-8; the vocabulary needs UTF-8", what,
           static_cast<uint32_t>(byte_at(part, position)), number());
    const int32_t token = code < token_of_.size() ? token_of_[code] : kNoToken;
    if (token == kNoToken)
      fail(ErrorKind::input,
           "{} {} at position {} is not in the vocabulary of {} tokens; leave it out", what,
           describe(kind_, code), number() + 1, size());
    tokens.push_back(token);
  }
}

std::string Vocabulary::decode(const std::vector<int32_t>& tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    require(token >= 0 && token < size(), "token {} is outside of the vocabulary of {} tokens",
            token, size());
    if (pairs_) {
      text += pairs_->bytes(token);
      continue;
    }
    const char32_t code = codes_[static_cast<size_t>(token)];
    if (kind_ == Kind::bytes)
      text += static_cast<char>(code);
    else
      append_utf8(text, code);
  }
  return text;
}

// Both are ascending: at the first difference, the smaller code is missing from the other.
std::string Vocabulary::difference_from(const Vocabulary& other) const {
  static constexpr const char* kNames[] = {"characters", "bytes", "byte pairs"};
  const auto name_of = [](Kind kind) { return kNames[static_cast<size_t>(kind)]; };
  if (kind_ != other.kind_)
    return fmt::format("its tokens are {}, not {}", name_of(kind_), name_of(other.kind_));
  if (pairs_) {
    const std::vector<BytePair>&mine = pairs_->merges(), &others = other.pairs_->merges();
    const auto at = std::mismatch(mine.begin(), mine.end(), others.begin(), others.end()).first;
    if (at == mine.end() && mine.size() == others.size()) return "";
    return fmt::format("its byte pairs differ from token {} on", kByteTokens + (at - mine.begin()));
  }
  const auto [own, theirs] =
      std::mismatch(codes_.begin(), codes_.end(), other.codes_.begin(), other.codes_.end());
  if (own == codes_.end() && theirs == other.codes_.end()) return "";
  const bool added = theirs == other.codes_.end() || (own != codes_.end() && *own < *theirs);
  return describe(kind_, added ? *own : *theirs) + (added ? " is new" : " is missing");
}

std::string WholeCharacters::add(std::string_view piece) {
  held_ += piece;
  std::string whole = held_.substr(0, whole_characters(held_));
  held_.erase(0, whole.size());
  return whole;
}

}  // namespace linea
