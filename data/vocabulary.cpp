#include "data/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/composition.h"
#include "data/json.h"
#include "data/utf8.h"

namespace linea {
namespace {

using json = nlohmann::json;

constexpr int64_t kMaxCharacters = 65536;
constexpr int32_t kNoToken = -1;
constexpr const char* kWords = "spaced";  // the rule of first_word()

char32_t byte_code(std::string_view text, size_t position) {
  return static_cast<unsigned char>(text[position]);
}

// Whether a message can show the character: not a control character, which could break the line, a
// mark that would change its neighbor, or one that is invisible, such as a byte order mark.
bool can_be_shown(char32_t code) {
  const auto in = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  return !in(0, 0x1F) && !in(0x7F, 0xA0) && !in(0x300, 0x36F) && !in(0x200B, 0x200F) &&
         !in(0x2028, 0x202E) && !in(0x3099, 0x309A) && code != 0xFEFF;
}

std::string describe_code(Vocabulary::Kind kind, char32_t code) {
  const auto number = static_cast<uint32_t>(code);
  if (kind != Vocabulary::Kind::characters) return fmt::format("byte 0x{:02X}", number);
  if (!can_be_shown(code)) return fmt::format("character U+{:04X}", number);
  std::string shown;
  append_utf8(shown, code);
  return fmt::format("character '{}' (U+{:04X})", shown, number);
}

[[noreturn]] void fail_vocabulary(const std::string& reason) {
  fail(ErrorKind::input, "the vocabulary is damaged: {}; use another checkpoint", reason);
}

}  // namespace

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
  if (static_cast<int64_t>(codes.size()) > kMaxCharacters)
    fail(ErrorKind::input,
         "{}: has {} distinct characters, at most {} can be tokens; use another text", name,
         codes.size(), kMaxCharacters);
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
    fail_vocabulary(fmt::format("its rule of words is not \"{}\"", kWords));
  const json merges = document.value("merges", json());
  if (!merges.is_array()) fail_vocabulary("it has no list of merges");
  std::vector<BytePair> pairs;
  const auto token = [](const json& merge, size_t index) {
    const json& entry = merge[index];
    const int64_t number = entry.is_number_integer() ? entry.get<int64_t>() : -1;
    if (number < 0 || number >= kMaxPairTokens) fail_vocabulary("a merge is not of two tokens");
    return static_cast<uint16_t>(number);
  };
  for (const json& merge : merges) {
    if (!merge.is_array() || merge.size() != 2) fail_vocabulary("a merge is not of two tokens");
    pairs.push_back({token(merge, 0), token(merge, 1)});
  }
  if (document["tokens"] != kByteTokens + static_cast<int64_t>(pairs.size()))
    fail_vocabulary("it has another number of tokens than its merges give");
  try {
    return BytePairs(std::move(pairs));
  } catch (const Error& error) {
    fail_vocabulary(error.what());
  }
}

}  // namespace

Vocabulary Vocabulary::parse(const std::string& text) {
  const json document = parse_json(text);
  if (document.is_discarded() || !document.is_object()) fail_vocabulary("it is not a JSON object");
  if (!document.contains("kind") || !document.contains("tokens"))
    fail_vocabulary("it has no \"kind\" or no \"tokens\"");
  const json& kind_name = document["kind"];
  if (kind_name == "byte_pairs") return of_pairs(parse_pairs(document));
  if (kind_name != "characters" && kind_name != "bytes")
    fail_vocabulary("its kind is none of \"characters\", \"bytes\" and \"byte_pairs\"");
  const Kind kind = kind_name == "bytes" ? Kind::bytes : Kind::characters;
  const int64_t limit = kind == Kind::bytes ? 256 : static_cast<int64_t>(kCodePoints);

  const json& tokens = document["tokens"];
  if (!tokens.is_array() || tokens.empty() || tokens.size() > kMaxCharacters)
    fail_vocabulary(fmt::format("its tokens are not a list of 1 to {} numbers", kMaxCharacters));
  std::vector<char32_t> codes;
  for (const json& entry : tokens) {
    // An unsigned number beyond int64 wraps to a negative one and fails the range check.
    const int64_t code = entry.is_number_integer() ? entry.get<int64_t>() : -1;
    const bool ascends = codes.empty() || code > static_cast<int64_t>(codes.back());
    if (code < 0 || code >= limit || !ascends ||
        (kind == Kind::characters && is_surrogate(static_cast<char32_t>(code))))
      fail_vocabulary(
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
                         describe_code(kind_, composed));
  if (const auto [first, mark] = decompose(code); mark != 0 && has(mark))
    return fmt::format(
        ", which has it decomposed, as {} and {}; convert the text to NFD (uconv -x nfd)",
        describe_code(kind_, first), describe_code(kind_, mark));
  return "; leave it out";
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
        kind_ == Kind::bytes ? byte_code(part, position++) : next_character(part, position);
    if (code == kNotUtf8)
      fail(ErrorKind::input,
           "{} byte 0x{:02X} after {} characters is not UTF-8; the vocabulary needs UTF-8", what,
           static_cast<uint32_t>(byte_code(part, position)), number());
    if (!has(code))
      fail(ErrorKind::input, "{} {} at position {} is not in the vocabulary of {} tokens{}", what,
           describe_code(kind_, code), number() + 1, size(),
           remedy_for(code, tokens.empty() ? 0 : codes_[static_cast<size_t>(tokens.back())],
                      part.substr(position)));
    tokens.push_back(token_of_[code]);
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

std::vector<std::string> Vocabulary::missing_from(const Vocabulary& other) const {
  std::vector<std::string> missing;
  if (kind_ == other.kind_)
    for (const char32_t code : codes_)
      if (!other.has(code)) missing.push_back(describe_code(kind_, code));
  return missing;
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
  return describe_code(kind_, added ? *own : *theirs) + (added ? " is new" : " is missing");
}

std::string WholeCharacters::add(std::string_view piece) {
  held_ += piece;
  std::string whole = held_.substr(0, whole_characters(held_));
  held_.erase(0, whole.size());
  return whole;
}

}  // namespace linea
