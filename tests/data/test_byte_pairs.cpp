#include "data/byte_pairs.h"

#include <map>

#include "tests/data/data_helpers.h"

namespace linea {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& text) {
  Words words;
  WordSplitter splitter([&](std::string_view word) { words.emplace_back(word); });
  splitter.add(text);
  splitter.finish();
  return words;
}

ByWord<int64_t> count(const Words& words) {
  ByWord<int64_t> counts;
  for (const std::string& word : words) ++counts[word];
  return counts;
}

// The obvious way: after each merge all words are read again and all pairs are counted.
std::vector<BytePair> obvious_merges(const Words& words, int64_t tokens) {
  std::vector<std::vector<uint16_t>> rows;
  for (const std::string& word : words) {
    std::vector<uint16_t>& row = rows.emplace_back();
    for (const char c : word) row.push_back(static_cast<unsigned char>(c));
  }
  std::vector<BytePair> merges;
  while (256 + static_cast<int64_t>(merges.size()) < tokens) {
    std::map<BytePair, int64_t> counts;
    for (const auto& row : rows)
      for (size_t i = 0; i + 1 < row.size(); ++i) ++counts[{row[i], row[i + 1]}];
    BytePair best;
    int64_t most = 1;
    for (const auto& [pair, times] : counts)  // ascending
      if (times > most) best = pair, most = times;
    if (most < 2) break;
    const auto token = static_cast<uint16_t>(256 + merges.size());
    merges.push_back(best);
    for (auto& row : rows) {
      std::vector<uint16_t> joined;
      for (size_t i = 0; i < row.size(); ++i) {
        const bool fits = i + 1 < row.size() && BytePair{row[i], row[i + 1]} == best;
        joined.push_back(fits ? token : row[i]);
        i += fits ? 1 : 0;
      }
      row = joined;
    }
  }
  return merges;
}

// The obvious way: each merge in its turn, over the whole word.
std::vector<uint16_t> obvious_tokens(const std::vector<BytePair>& merges, const std::string& word) {
  std::vector<uint16_t> row;
  for (const char c : word) row.push_back(static_cast<unsigned char>(c));
  for (size_t merge = 0; merge < merges.size(); ++merge)
    for (size_t i = 0; i + 1 < row.size(); ++i)
      if (BytePair{row[i], row[i + 1]} == merges[merge]) {
        row[i] = static_cast<uint16_t>(256 + merge);
        row.erase(row.begin() + static_cast<long>(i) + 1);
      }
  return row;
}

// Letters of few kinds, so that pairs overlap and counts are equal; longer words for larger seeds.
std::string made_text(uint32_t seed) {
  const std::string letters[] = {"a", "a", "b", " ", "\n", "\xC3\xA9", ".", "'", "7", "  "};
  std::string text;
  uint32_t state = seed * 747796405u + 1;
  for (int i = 0; i < 2000; ++i) {
    state = state * 1664525u + 1013904223u;
    text += letters[(state >> 16) % (seed % 2 == 0 ? 10 : 4)];
  }
  return text;
}

TEST(BytePairs, MergesAreThoseOfTheObviousWay) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const Words words = words_of(made_text(seed));
    const std::vector<BytePair> merges = learn_byte_pairs(count(words), 400);
    EXPECT_EQ(merges, obvious_merges(words, 400)) << seed;
    EXPECT_GT(merges.size(), 40u);
    const BytePairs pairs(merges);
    for (const std::string& word : words_of(made_text(seed + 100))) {
      std::vector<uint16_t> tokens;
      pairs.encode_word(word, tokens);
      ASSERT_EQ(tokens, obvious_tokens(merges, word)) << testing::PrintToString(word);
    }
  }
}

// Overlapping pairs count: "aaa" has two, "bbb" and its space too; "a" is the smaller byte.
TEST(BytePairs, TiesAndOverlapsAreByTheRule) {
  const auto merges = [](const Words& words, int64_t tokens) {
    return learn_byte_pairs(count(words), tokens);
  };
  EXPECT_EQ(merges({"bbb", "aaa"}, 257), (std::vector<BytePair>{{'a', 'a'}}));
  EXPECT_EQ(merges({"ab", "ab", "ba", "ba"}, 300), (std::vector<BytePair>{{'a', 'b'}, {'b', 'a'}}));
  EXPECT_EQ(merges({"aaaa", "aaaa"}, 300), (std::vector<BytePair>{{'a', 'a'}, {256, 256}}));
  EXPECT_EQ(merges({"abc", "xyz"}, 300), std::vector<BytePair>{});  // no pair occurs twice
  EXPECT_EQ(merges({}, 300), std::vector<BytePair>{});
  EXPECT_EQ(merges({"\xFF\x01", "\xFF\x01", "\x01\xFF", "\x01\xFF"}, 257),
            (std::vector<BytePair>{{0x01, 0xFF}}));  // bytes are not signed
}

TEST(BytePairs, WordsEndWhereTheirKindChanges) {
  EXPECT_EQ(words_of("To be, or not\n\n  to  be: 12 don't"),
            (Words{"To", " be", ",", " or", " not", "\n\n", " ", " to", " ", " be", ":", " 12",
                   " don", "'t"}));
  EXPECT_EQ(words_of("caf\xC3\xA9 (x)\r\n\t\ty "),
            (Words{"caf\xC3\xA9", " (", "x", ")", "\r\n", "\t\t", "y", " "}));
  EXPECT_EQ(words_of(""), Words{});
  EXPECT_EQ(words_of(" \n "), (Words{" ", "\n", " "}));
  // Long words end between two characters.
  std::string accents = "a";
  for (int i = 0; i < 50; ++i) accents += "\xC3\xA9";
  const Words cut = words_of(accents);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].size(), 63u);
  EXPECT_EQ(words_of(std::string(130, 'x')),
            (Words{std::string(64, 'x'), std::string(64, 'x'), "xx"}));
  EXPECT_EQ(words_of(std::string(70, ' ') + "x"),
            (Words{std::string(64, ' '), std::string(5, ' '), " x"}));
  EXPECT_EQ(words_of(std::string(70, '\x80')).front().size(), 64u);  // no character at all
}

TEST(BytePairs, BlocksDoNotMatter) {
  const std::string text = made_text(2) + std::string(100, 'x') + made_text(4);
  const BytePairs pairs(learn_byte_pairs(count(words_of(text)), 300));
  std::vector<uint16_t> whole;
  BytePairEncoder encoder(pairs, whole);
  encoder.add(text);
  encoder.finish();
  EXPECT_LT(whole.size(), text.size() * 3 / 4);
  std::string again;
  for (const uint16_t token : whole) again += pairs.bytes(token);
  EXPECT_EQ(again, text);
  for (const size_t block : {1u, 7u, 64u, 65u, 1000u}) {
    std::vector<uint16_t> tokens;
    BytePairEncoder parts(pairs, tokens);
    for (size_t first = 0; first < text.size(); first += block)
      parts.add(std::string_view(text).substr(first, block));
    parts.finish();
    EXPECT_EQ(tokens, whole) << block;
  }
}

TEST(BytePairs, RefusesMergesThatNoTextGives) {
  const auto refused = [](const std::vector<BytePair>& merges, const std::string& reason) {
    expect_error(ErrorKind::input, {reason}, [&] { BytePairs pairs(merges); });
  };
  refused({{256, 1}}, "not tokens before it");
  refused({{1, 2}, {1, 2}}, "as a token before it does");
  std::vector<BytePair> doubling = {{'a', 'a'}};
  for (uint16_t token = 256; token < 262; ++token) doubling.push_back({token, token});
  refused(doubling, "token 262 has 128 bytes, at most 64");
  doubling.pop_back();
  EXPECT_EQ(BytePairs(doubling).bytes(261), std::string(64, 'a'));
  std::vector<BytePair> many;
  for (int i = 0; i < 65281; ++i)
    many.push_back({static_cast<uint16_t>(i / 256), static_cast<uint16_t>(i % 256)});
  refused(many, "at most 65280");
  many.pop_back();
  EXPECT_EQ(BytePairs(many).size(), 65536);
}

}  // namespace
}  // namespace linea
