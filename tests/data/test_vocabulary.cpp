#include "data/vocabulary.h"

#include "data/utf8.h"
#include "tests/data/data_helpers.h"

namespace linea {
namespace {

using Kind = Vocabulary::Kind;

TEST(Text, CharactersAreSortedAndRoundTrip) {
  const std::string text = "na\u00efve \u20ac \U0001F600\nabc";
  const Vocabulary vocabulary = Vocabulary::from_text(text, "text");
  EXPECT_EQ(vocabulary.kind(), Kind::characters);
  EXPECT_EQ(vocabulary.size(), 11);  // \n space a b c e n v i-diaeresis euro face
  EXPECT_EQ(vocabulary.encode("\n ab\U0001F600"), (std::vector<int32_t>{0, 1, 2, 3, 10}));
  EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
  EXPECT_EQ(vocabulary.start_token(), 0);
}

TEST(Text, TheNewlineComesFirst) {
  EXPECT_EQ(Vocabulary::from_text("\tx\ny", "text").start_token(), 1);
  EXPECT_EQ(Vocabulary::from_text("abc", "text").start_token(), 0);
  EXPECT_EQ(Vocabulary::from_text("\t", "text").start_token(), 0);
}

TEST(Text, InvalidUtf8IsBytes) {
  const std::string not_utf8[] = {
      "caf\xE9",           // Latin-1
      "\xC0\xAF",          // overlong, 2 bytes
      "\xE0\x80\xAF",      // overlong, 3 bytes
      "\xF0\x80\x80\xAF",  // overlong, 4 bytes
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // beyond U+10FFFF
      "\xF8\x88\x80\x80",  // no such first byte
      "abc\xE2\x82",       // cut
      "\x80",
  };
  for (const std::string& text : not_utf8) {
    const Vocabulary vocabulary = Vocabulary::from_text(text, "text");
    EXPECT_EQ(vocabulary.kind(), Kind::bytes) << testing::PrintToString(text);
    EXPECT_EQ(vocabulary.encode(text).size(), text.size());
    EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
  }
  EXPECT_EQ(Vocabulary::from_text("\xF4\x8F\xBF\xBF\xEE\x80\x80\xED\x9F\xBF", "text").kind(),
            Kind::characters);  // U+10FFFF, U+E000, U+D7FF
}

TEST(Text, NamesTheFirstUnknownCharacter) {
  const Vocabulary characters = Vocabulary::from_text("caf\u00e8", "text");
  expect_error(ErrorKind::input,
               {"prompt character '\u00e9' (U+00E9) at position 4", "vocabulary of 4 tokens"},
               [&] { characters.encode("\u00e8af\u00e9z"); });
  expect_error(ErrorKind::input, {"character U+000A at position 1 "},
               [&] { characters.encode("\n"); });
  expect_error(ErrorKind::input, {"prompt byte 0xE9 after 3 characters is not UTF-8"},
               [&] { characters.encode("caf\xE9"); });
  const Vocabulary bytes = Vocabulary::from_text("ab\xFF", "text");
  expect_error(ErrorKind::input, {"here: byte 0xC3 at position 2 "},
               [&] { bytes.encode("a\u00e9", "here:"); });
  expect_error(ErrorKind::usage, {"token 3", "3 tokens"}, [&] { bytes.decode({0, 3}); });
  expect_error(ErrorKind::usage, {"token -1"}, [&] { bytes.decode({-1}); });
}

TEST(Text, RefusesTooManyTokens) {
  std::string text;
  for (uint32_t code = 0x10000; code < 0x10000 + 65536; ++code) {
    text += static_cast<char>(0xF0 | code >> 18);
    text += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
  EXPECT_EQ(Vocabulary::from_text(text, "text").size(), 65536);
  expect_error(ErrorKind::input, {"text", "65537", "65536"},
               [&] { Vocabulary::from_text(text + "a", "text"); });
}

TEST(Text, SerializationRoundTrips) {
  for (const std::string& text : {std::string("na\u00efve\n"), std::string("b\xFF\0a", 4)}) {
    const Vocabulary vocabulary = Vocabulary::from_text(text, "text");
    const Vocabulary copy = Vocabulary::parse(vocabulary.serialize());
    EXPECT_EQ(copy.kind(), vocabulary.kind());
    EXPECT_EQ(copy.encode(text), vocabulary.encode(text));
    EXPECT_EQ(copy.decode(copy.encode(text)), text);
  }
}

TEST(Text, BytePairsRoundTrip) {
  const Vocabulary pairs = Vocabulary::of_pairs(BytePairs({{'t', 'h'}, {256, 'e'}, {' ', 257}}));
  EXPECT_EQ(pairs.kind(), Kind::byte_pairs);
  EXPECT_EQ(pairs.size(), 259);
  EXPECT_EQ(pairs.start_token(), '\n');
  EXPECT_EQ(pairs.encode("the the\xFF\n"), (std::vector<int32_t>{257, 258, 0xFF, '\n'}));
  EXPECT_EQ(pairs.decode({257, 258, 0xFF}), "the the\xFF");
  EXPECT_EQ(pairs.token_bytes()[258], 4);
  EXPECT_EQ(pairs.serialize(),
            R"({"kind":"byte_pairs","merges":[[116,104],[256,101],[32,257]],"tokens":259,)"
            R"("words":"spaced"})");
  const Vocabulary copy = Vocabulary::parse(pairs.serialize());
  EXPECT_EQ(copy.encode("the the"), pairs.encode("the the"));
  EXPECT_EQ(copy.difference_from(pairs), "");
  const Vocabulary other = Vocabulary::of_pairs(BytePairs({{'t', 'h'}, {256, 'a'}, {' ', 257}})),
                   fewer = Vocabulary::of_pairs(BytePairs({{'t', 'h'}}));
  EXPECT_EQ(other.difference_from(pairs), "its byte pairs differ from token 257 on");
  EXPECT_EQ(fewer.difference_from(pairs), "its byte pairs differ from token 257 on");
  EXPECT_EQ(pairs.difference_from(fewer), "its byte pairs differ from token 257 on");
  EXPECT_EQ(pairs.difference_from(Vocabulary::all_bytes()), "its tokens are byte pairs, not bytes");
  EXPECT_EQ(Vocabulary::from_text("na\u00efve", "text").token_bytes(),
            (std::vector<int32_t>{1, 1, 1, 1, 2}));
}

TEST(Text, CharactersArePrintedWhole) {
  const std::string text = "a\u00e9\u20ac\U0001F600z";
  WholeCharacters whole;
  std::string all;
  for (const char c : text) {
    const std::string piece = whole.add({&c, 1});
    EXPECT_EQ(first_non_utf8(piece), piece.size());
    all += piece;
  }
  EXPECT_EQ(all, text);
  EXPECT_EQ(whole.rest(), "");
  EXPECT_EQ(whole.add("x\xE2\x82"), "x");
  EXPECT_EQ(whole.rest(), "\xE2\x82");  // never completed
  // What is not UTF-8 passes, once no byte can complete it.
  for (const std::string& bytes : {std::string("\xFF"), std::string("\x80\x80\x80\x80\x80"),
                                   std::string("\xE9t\xE9."), std::string("\xF0\x9F.")})
    EXPECT_EQ(WholeCharacters().add(bytes), bytes) << testing::PrintToString(bytes);
}

TEST(Text, RefusesADamagedVocabulary) {
  const std::string damaged[] = {
      "",
      "{",
      "[]",
      "12",
      R"({"kind":"bytes"})",
      R"({"tokens":[1]})",
      R"({"kind":"words","tokens":[1]})",
      R"({"kind":7,"tokens":[1]})",
      R"({"kind":"bytes","tokens":[]})",
      R"({"kind":"bytes","tokens":"abc"})",
      R"({"kind":"bytes","tokens":{"a":1}})",
      R"({"kind":"bytes","tokens":[1,256]})",
      R"({"kind":"bytes","tokens":[2,2]})",
      R"({"kind":"bytes","tokens":[2,1]})",
      R"({"kind":"bytes","tokens":[-1]})",
      R"({"kind":"bytes","tokens":[1.5]})",
      R"({"kind":"bytes","tokens":[true]})",
      R"({"kind":"bytes","tokens":["a"]})",
      R"({"kind":"characters","tokens":[55296]})",
      R"({"kind":"characters","tokens":[1114112]})",
      R"({"kind":"characters","tokens":[4294967296]})",
      R"({"kind":"characters","tokens":[18446744073709551615]})",
      R"({"kind":"byte_pairs","tokens":256})",
      R"({"kind":"byte_pairs","merges":[],"tokens":256})",
      R"({"kind":"byte_pairs","merges":[],"tokens":256,"words":"other"})",
      R"({"kind":"byte_pairs","merges":[],"tokens":[256],"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[[1,2]],"tokens":256,"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[[1]],"tokens":257,"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[[1,2,3]],"tokens":257,"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[{"0":1,"1":2}],"tokens":257,"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[[1,256]],"tokens":257,"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[[1,-1]],"tokens":257,"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[[1,65792]],"tokens":257,"words":"spaced"})",
      R"({"kind":"byte_pairs","merges":[[1,2],[1,2]],"tokens":258,"words":"spaced"})",
  };
  for (const std::string& text : damaged) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::input, {"vocabulary is damaged"}, [&] { Vocabulary::parse(text); });
  }
  EXPECT_EQ(Vocabulary::parse(R"({"kind":"characters","tokens":[10,1114111]})").size(), 2);
}

}  // namespace
}  // namespace linea
