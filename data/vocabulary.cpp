#include "data/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/composition.h"
#include "data/json.h"
#include "data/utf8.h"
#include "tensor/error.h"

namespace linea {
namespace {

using nlohmann::json;

constexpr int64_t kMaxTokens = 65536;
constexpr int32_t kNoToken = -1;

char32_t byte_at(std::string_view text, size_t position) {
  return static_cast<unsigned char>(text[position]);
}

// Whether a message can show the character: not a control character, which could break the line, a
// mark that would change its neighbor, or one that is invisible, such as a byte order mark.
bool can_be_shown(char32_t code) {
  const auto in = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  return !in(0, 0x1F) && !in(0x7F, 0xA0) && !in(0x300, 0x36F) && !in(0x200B, 0x200F) &&
         !in(0x2028, 0x202E) && !in(0x3099, 0x309A) && code != 0xFEFF;
}

std::string describe(Vocabulary::Kind kind, char32_t code) {
  const auto number = static_cast<uint32_t>(code);
  if (kind == Vocabulary::Kind::bytes) return fmt::format("byte 0x{:02X}", number);
  if (!can_be_shown(code)) return fmt::format("character U+{:04X}", number);
  std::string shown;
  append_utf8(shown, code);
  return fmt::format("character '{}' (U+{:04X})", shown, number);
}

[[noreturn]] void fail_damaged(const std::string& reason) {
  fail(ErrorKind::input, "the vocabulary is damaged: {}; use another checkpoint", reason);
}

}  // namespace

Vocabulary::Vocabulary(Kind kind, std::vector<char32_t> codes)
    : kind_(kind), codes_(std::move(codes)), token_of_(codes_.back() + 1, kNoToken) {
  for (size_t token = 0; token < codes_.size(); ++token)
    token_of_[codes_[token]] = static_cast<int32_t>(token);
}

Vocabulary Vocabulary::from_text(std::string_view text, const std::string& name) {
  if (text.empty()) fail(ErrorKind::input, "{}: is empty; name a file with text", name);
  const Kind kind = first_non_utf8(text) == text.size() ? Kind::characters : Kind::bytes;
  std::vector<bool> seen;  // up to the largest code
  for (size_t position = 0; position < text.size();) {
    const char32_t code =
        kind == Kind::bytes ? byte_at(text, position++) : next_character(text, position);
    if (code >= seen.size()) seen.resize(code + 1, false);
    seen[code] = true;
  }
  std::vector<char32_t> codes;
  for (char32_t code = 0; code < seen.size(); ++code)
    if (seen[code]) codes.push_back(code);
  if (static_cast<int64_t>(codes.size()) > kMaxTokens)
    fail(ErrorKind::input,
         "{}: has {} distinct characters, at most {} can be tokens; use another text", name,
         codes.size(), kMaxTokens);
  return Vocabulary(kind, std::move(codes));
}

Vocabulary Vocabulary::all_bytes() {
  std::vector<char32_t> codes;
  for (char32_t code = 0; code < 256; ++code) codes.push_back(code);
  return Vocabulary(Kind::bytes, std::move(codes));
}

std::string Vocabulary::serialize() const {
  const json document = {{"kind", kind_ == Kind::bytes ? "bytes" : "characters"},
                         {"tokens", std::vector<uint32_t>(codes_.begin(), codes_.end())}};
  return dump_json(document);
}

Vocabulary Vocabulary::parse(const std::string& text) {
  const json document = parse_json(text);
  if (document.is_discarded() || !document.is_object()) fail_damaged("it is not a JSON object");
  if (!document.contains("kind") || !document.contains("tokens"))
    fail_damaged("it has no \"kind\" or no \"tokens\"");
  const json& kind_name = document["kind"];
  if (kind_name != "characters" && kind_name != "bytes")
    fail_damaged("its kind is neither \"characters\" nor \"bytes\"");
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

int32_t Vocabulary::start_token() const { return has(U'\n') ? token_of_[U'\n'] : 0; }

bool Vocabulary::has(char32_t code) const {
  return code < token_of_.size() && token_of_[code] != kNoToken;
}

std::string Vocabulary::remedy_for(char32_t code, char32_t before, std::string_view rest) const {
  if (kind_ == Kind::bytes) return "; leave it out";
  size_t position = 0;
  const char32_t after = rest.empty() ? 0 : next_character(rest, position);
  const char32_t with_before = compose(before, code);
  for (const char32_t composed : {with_before, compose(code, after), compose(with_before, after)})
    if (composed != 0 && has(composed))
      return fmt::format(", which has it composed, as {}; convert the text to NFC (uconv -x nfc)",
                         describe(kind_, composed));
  if (const auto [first, mark] = decompose(code); mark != 0 && has(mark))
    return fmt::format(
        ", which has it decomposed, as {} and {}; convert the text to NFD (uconv -x nfd)",
        describe(kind_, first), describe(kind_, mark));
  return "; leave it out";
}

std::vector<int32_t> Vocabulary::encode(std::string_view text, const std::string& what) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const char32_t code =
        kind_ == Kind::bytes ? byte_at(text, position++) : next_character(text, position);
    if (code == kNotUtf8)
      fail(ErrorKind::input,
           "{} byte 0x{:02X} after {} characters is not UTF-8; the vocabulary needs UTF-8", what,
           static_cast<uint32_t>(byte_at(text, position)), tokens.size());
    if (!has(code))
      fail(ErrorKind::input, "{} {} at position {} is not in the vocabulary of {} tokens{}", what,
           describe(kind_, code), tokens.size() + 1, size(),
           remedy_for(code, tokens.empty() ? 0 : codes_[static_cast<size_t>(tokens.back())],
                      text.substr(position)));
    tokens.push_back(token_of_[code]);
  }
  return tokens;
}

std::string Vocabulary::decode(const std::vector<int32_t>& tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    require(token >= 0 && token < size(), "token {} is outside of the vocabulary of {} tokens",
            token, size());
    const char32_t code = codes_[static_cast<size_t>(token)];
    if (kind_ == Kind::bytes)
      text += static_cast<char>(code);
    else
      append_utf8(text, code);
  }
  return text;
}

std::vector<std::string> Vocabulary::missing_from(const Vocabulary& other) const {
  std::vector<std::string> missing;
  if (kind_ == other.kind_)
    for (const char32_t code : codes_)
      if (!other.has(code)) missing.push_back(describe(kind_, code));
  return missing;
}

// Both are ascending: at the first difference, the smaller code is missing from the other.
std::string Vocabulary::difference_from(const Vocabulary& other) const {
  if (kind_ != other.kind_)
    return kind_ == Kind::bytes ? "its tokens are bytes, not characters"
                                : "its tokens are characters, not bytes";
  const auto [own, theirs] =
      std::mismatch(codes_.begin(), codes_.end(), other.codes_.begin(), other.codes_.end());
  if (own == codes_.end() && theirs == other.codes_.end()) return "";
  const bool added = theirs == other.codes_.end() || (own != codes_.end() && *own < *theirs);
  return describe(kind_, added ? *own : *theirs) + (added ? " is new" : " is missing");
}

}  // namespace linea
