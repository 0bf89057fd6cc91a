#include "data/text_tokens.h"

#include <chrono>
#include <filesystem>

#include "data/hash.h"
#include "tests/data/data_helpers.h"

namespace linea {
namespace {

// Characters of one to four bytes, in no regular order.
std::string mixed_text(size_t characters) {
  const char* const kinds[] = {"a", "b", "\n", " ", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  std::string text;
  for (size_t i = 0; i < characters; ++i) text += kinds[i * i / 3 % 7];
  return text;
}

class TextTokensTest : public DataTest {
 protected:
  // From a file that is not read into memory.
  std::shared_ptr<const TextSource> streamed(const std::string& text) const {
    auto source = std::make_shared<TextSource>(put("text.txt", text), 0);
    EXPECT_EQ(source->is_in_memory(), text.empty());
    return source;
  }
};

TEST_F(TextTokensTest, AFileGivesTheTokensOfItsText) {
  for (const std::string& text :
       {mixed_text(5000), std::string(3000, 'a') + mixed_text(10) + std::string(3000, 'b'),
        std::string(5000, 'x') + "y", std::string("\xFF") + mixed_text(3000)}) {
    const Vocabulary vocabulary = Vocabulary::from_text(text, "text");
    const std::vector<int32_t> all = vocabulary.encode(text);
    const TextTokens tokens(streamed(text), vocabulary);
    ASSERT_EQ(tokens.size(), static_cast<int64_t>(all.size()));
    EXPECT_EQ(tokens.train_end(), tokens.size() * 9 / 10);
    std::vector<int32_t> part;
    for (const int64_t first : {0, 1, 1022, 1023, 1024, 1025, 2047, 2048, 2990})
      for (const int64_t count : {0, 1, 5, 1024, 2000}) {
        const int64_t end = std::min(tokens.size(), first + count);
        tokens.read(first, end, part);
        ASSERT_EQ(part, std::vector<int32_t>(all.begin() + first, all.begin() + end))
            << first << " " << end;
      }
    // As runs of earlier versions have it.
    EXPECT_EQ(tokens.train_hash(), hash_bytes({reinterpret_cast<const char*>(all.data()),
                                               static_cast<size_t>(tokens.train_end()) * 4}));
  }
}

TEST_F(TextTokensTest, TextsLongerThanABlock) {
  const std::string text = mixed_text(1500000);
  ASSERT_GT(text.size(), size_t{2} << 20);
  const auto source = streamed(text);
  VocabularyScan scan;
  std::string again;
  source->for_each_block(0, source->size(), [&](std::string_view block) {
    scan.add(block);
    again += block;
  });
  EXPECT_TRUE(again == text);
  EXPECT_EQ(scan.first_non_utf8(), source->size());
  const TextTokens tokens(source, scan.vocabulary("text"));
  EXPECT_EQ(tokens.size(), 1500000);
  std::vector<int32_t> part;
  tokens.read(1499990, 1500000, part);
  EXPECT_EQ(tokens.vocabulary().decode(part),
            text.substr(text.size() - tokens.vocabulary().decode(part).size()));
}

// The first character of two bytes comes in a later block.
TEST_F(TextTokensTest, ABlockOfAsciiBeforeOtherCharacters) {
  const std::string text = std::string((1 << 20) + 5000, 'a') + mixed_text(3000) + "end";
  const Vocabulary vocabulary = Vocabulary::from_text(text, "text");
  const std::vector<int32_t> all = vocabulary.encode(text);
  const TextTokens tokens(streamed(text), vocabulary);
  ASSERT_EQ(tokens.size(), static_cast<int64_t>(all.size()));
  std::vector<int32_t> part;
  for (const int64_t first : {int64_t{0}, int64_t{5000}, int64_t{1} << 20, tokens.size() - 2000}) {
    tokens.read(first, first + 2000, part);
    EXPECT_EQ(part, std::vector<int32_t>(all.begin() + first, all.begin() + first + 2000)) << first;
  }
}

TEST_F(TextTokensTest, AByteOrderMarkIsLeftOut) {
  const std::string text = mixed_text(3000);
  for (const int64_t in_memory : {int64_t{0}, kTextInMemory}) {
    TextSource source(put("text.txt", "\xEF\xBB\xBF" + text), in_memory);
    source.leave_out(3);
    std::string buffer;
    EXPECT_EQ(source.size(), static_cast<int64_t>(text.size()));
    EXPECT_EQ(source.read(10, source.size(), buffer), text.substr(10));
    EXPECT_TRUE(source.start(buffer).starts_with(text));
  }
}

TEST_F(TextTokensTest, NamesTheFirstUnknownCharacterOfAFile) {
  const std::string text = mixed_text(2000) + "z";
  expect_error(ErrorKind::input, {path("text.txt"), "character 'z'", "at position 2001"}, [&] {
    TextTokens tokens(streamed(text), Vocabulary::from_text(mixed_text(100), "text"));
  });
}

TEST_F(TextTokensTest, AChangedFileIsNamed) {
  const std::string text = mixed_text(4000);
  const Vocabulary vocabulary = Vocabulary::from_text(text, "text");
  const auto refused = [&](const std::function<void()>& change) {
    const TextTokens tokens(streamed(text), vocabulary);
    std::vector<int32_t> part;
    tokens.read(3000, 3100, part);
    change();
    expect_error(ErrorKind::input, {path("text.txt"), "was changed while it was in use"},
                 [&] { tokens.read(3000, 3100, part); });
  };
  refused([&] { std::filesystem::resize_file(path("text.txt"), 100); });
  refused([&] { put("text.txt", text + "more"); });
  refused([&] {  // as many other bytes
    put("text.txt", std::string(text.size(), 'a'));
    using namespace std::chrono_literals;
    const auto now = std::filesystem::last_write_time(path("text.txt"));
    std::filesystem::last_write_time(path("text.txt"), now + 1s);
  });
  // Another file of its name does not matter, nor do changes of one that is in memory.
  const TextTokens tokens(streamed(text), vocabulary);
  put("new.txt", "other");
  std::filesystem::rename(path("new.txt"), path("text.txt"));
  std::vector<int32_t> part;
  tokens.read(3000, 3100, part);
  const TextTokens held(std::make_shared<TextSource>(put("text.txt", text)), vocabulary);
  std::filesystem::resize_file(path("text.txt"), 100);
  std::vector<int32_t> same;
  held.read(3000, 3100, same);
  EXPECT_EQ(same, part);
}

TEST_F(TextTokensTest, PairsAreLearnedBeforeTheCutAlone) {
  // "ab" is frequent in the first 90%, "cd" after them.
  std::string text;
  for (int i = 0; i < 300; ++i) text += "ab ";
  const int64_t cut = 900;
  for (int i = 0; i < 33; ++i) text += "cd ";
  text += "x";  // 1,000 bytes
  const Vocabulary vocabulary = learn_pairs(*streamed(text), 300);
  EXPECT_EQ(vocabulary.pairs().merges(), (std::vector<BytePair>{{'a', 'b'}, {' ', 256}}));
  const TextTokens tokens(streamed(text), vocabulary);
  std::vector<int32_t> train, val;
  tokens.read(0, tokens.train_end(), train);
  tokens.read(tokens.train_end(), tokens.size(), val);
  EXPECT_EQ(vocabulary.decode(train), text.substr(0, cut));
  EXPECT_EQ(vocabulary.decode(val), text.substr(cut));
  EXPECT_EQ(train, vocabulary.encode(text.substr(0, cut)));
  EXPECT_EQ(train.size(), 301u);  // "ab", 299 times " ab", a space
  // The cut is between two characters.
  std::string accents = "a";
  for (int i = 0; i < 50; ++i) accents += "\xC3\xA9";
  EXPECT_EQ(pairs_end(*streamed(accents)), 89);  // 101 * 9 / 10 = 90 is inside of one
}

}  // namespace
}  // namespace linea
