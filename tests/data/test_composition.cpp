#include "data/composition.h"

#include <gtest/gtest.h>

#include "data/vocabulary.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

TEST(Composition, IsThatOfUnicode) {
  const std::tuple<char32_t, char32_t, char32_t> cases[] = {
      {U'e', 0x301, 0xE9},      {U'u', 0x308, 0xFC},      {0xEA, 0x301, 0x1EBF},
      {0x438, 0x306, 0x439},    {0x3B1, 0x301, 0x3AC},    {0x304B, 0x3099, 0x304C},
      {0x627, 0x653, 0x622},    {U'=', 0x338, 0x2260},    {0x1100, 0x1161, 0xAC00},
      {0xAC00, 0x11A8, 0xAC01}, {0x1112, 0x1175, 0xD788}, {0xD788, 0x11C2, 0xD7A3},
      {0x1F00, 0x345, 0x1F80}};
  for (const auto& [first, second, composed] : cases) {
    EXPECT_EQ(compose(first, second), composed) << std::hex << static_cast<uint32_t>(composed);
    EXPECT_EQ(decompose(composed), (std::pair<char32_t, char32_t>{first, second}));
  }
  for (const auto& [first, second] : {std::pair<char32_t, char32_t>{U'e', U'e'},
                                      {U'q', 0x301},
                                      {0xAC01, 0x11A8},
                                      {0xAC00, 0x11A7},
                                      {0, 0},
                                      {U'e', 0}})
    EXPECT_EQ(compose(first, second), char32_t{0});
  for (const char32_t code : {U'e', char32_t{0x301}, char32_t{0}, char32_t{0xD7A4}})
    EXPECT_EQ(decompose(code).second, char32_t{0});
}

// A prompt in one form of Unicode, and a vocabulary in the other.
TEST(Composition, IsNamedWhereACharacterIsUnknown) {
  const auto refused = [](const std::string& text, const std::string& prompt,
                          std::initializer_list<std::string> fragments) {
    const Vocabulary vocabulary = Vocabulary::from_text(text, "text");
    expect_error(ErrorKind::input, fragments, [&] { vocabulary.encode(prompt); });
  };
  refused("caf\u00e9", "cafe\u0301",
          {"character 'e' (U+0065) at position 4 ", "composed, as character '\u00e9' (U+00E9)",
           "to NFC"});
  refused("cafe\u00e9", "cafe\u0301",
          {"character U+0301 at position 5 is not in the vocabulary of 5 tokens, which has it "
           "composed, as character '\u00e9' (U+00E9); convert the text to NFC (uconv -x nfc)"});
  refused("e\u1EBF", "e\u0302\u0301", {"character U+0302 ", "'\u1EBF' (U+1EBF)", "to NFC"});
  refused("cafe\u0301", "caf\u00e9",
          {"character '\u00e9' (U+00E9) at position 4 is not in the vocabulary of 5 tokens, which "
           "has it decomposed, as character 'e' (U+0065) and character U+0301; convert the text to "
           "NFD (uconv -x nfd)"});
  refused("\uAC00", "\u1100\u1161", {"U+1100", "composed, as character '\uAC00'"});
  refused("\u1100\u1161", "\uAC00", {"U+AC00", "decomposed"});
  refused("cafe", "caf\u00e9", {"vocabulary of 4 tokens; leave it out"});
  refused("abc", "abe\u0301", {"; leave it out"});
  refused("abc",
          "\xEF\xBB\xBF"
          "abc",
          {"character U+FEFF at position 1 "});
}

}  // namespace
}  // namespace linea
