#include "tests/data/data_helpers.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "data/readers/gzip.h"
#include "data/tasks/task.h"
#include "data/vocabulary.h"
#include "tests/data/readers/idx_bytes.h"
#include "tests/data/readers/tar_bytes.h"

namespace linea {
namespace {

// 1,003 tokens whose neighbors tell their place: 902 for training, 101 for val.
std::string sample_text() {
  std::string text;
  for (int i = 0; i < 1003; ++i) text += static_cast<char>(' ' + (i * i / 7 + i) % 90);
  return text;
}

class TextTaskTest : public DataTest {
 protected:
  TaskOptions options(const std::string& text, int64_t length) const {
    TaskOptions options;
    options.name = "text";
    options.settings["data"] = put("text.txt", text);
    options.settings["length"] = length;
    return options;
  }
};

TEST_F(TextTaskTest, EvalScoresEveryTokenOnce) {
  const std::string text = sample_text();
  const auto task = make_task(options(text, 16));
  const Vocabulary vocabulary = Vocabulary::parse(task->serialized_vocabulary());
  const std::vector<int32_t> tokens = vocabulary.encode(text);
  for (const auto& [split, first, end] :
       {std::tuple{Split::train, 0, 902}, {Split::val, 902, 1003}}) {
    EXPECT_EQ(task->rows(split), (end - first + 15) / 16);
    int position = first;
    for (int64_t row = 0; row < task->rows(split); ++row) {
      const Batch batch = task->eval_batch(split, row, 1);
      ASSERT_EQ(batch.length, 16);
      for (size_t t = 0; t < 16; ++t) {
        if (position == end) {
          EXPECT_EQ(batch.targets[t], kNotScored);
          EXPECT_EQ(batch.inputs[t], task->shape().start);
          continue;
        }
        const auto here = static_cast<size_t>(position);
        EXPECT_EQ(batch.targets[t], tokens[here]);
        EXPECT_EQ(batch.inputs[t], position == 0 ? task->shape().start : tokens[here - 1]);
        ++position;
      }
    }
    EXPECT_EQ(position, end);
  }
}

TEST_F(TextTaskTest, HasNoTestSplit) {
  const auto task = make_task(options(sample_text(), 16));
  expect_error(ErrorKind::usage, {"no test split", "`split` val"},
               [&] { task->rows(Split::test); });
  expect_error(ErrorKind::usage, {"no test split"}, [&] { task->eval_batch(Split::test, 0, 1); });
}

TEST_F(TextTaskTest, OneEpochVisitsEveryWindowOnceAndStaysInTrain) {
  const std::string text = sample_text();
  const auto task = make_task(options(text, 16));
  const std::vector<int32_t> tokens = Vocabulary::parse(task->serialized_vocabulary()).encode(text);
  std::map<std::vector<int32_t>, int> expected, visited;
  for (size_t start = 0; start + 16 < 902; ++start)
    ++expected[{tokens.begin() + static_cast<long>(start),
                tokens.begin() + static_cast<long>(start) + 17}];
  constexpr int64_t kRows = 2;  // 886 = 443 * 2 windows
  for (uint64_t step = 0; step < 443; ++step) {
    const Batch batch = task->train_rows(5, step * kRows, kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto input = batch.inputs.begin() + row * 16;
      const auto target = batch.targets.begin() + row * 16;
      std::vector<int32_t> window(input, input + 16);
      window.push_back(*(target + 15));
      EXPECT_TRUE(std::equal(target, target + 15, input + 1));
      ++visited[window];
    }
  }
  EXPECT_EQ(visited, expected);
}

TEST_F(TextTaskTest, BatchesDependOnSeedAndStepOnly) {
  const auto task = make_task(options(sample_text(), 16));
  EXPECT_EQ(task->train_rows(1, 12, 4).inputs, task->train_rows(1, 12, 4).inputs);
  EXPECT_NE(task->train_rows(1, 12, 4).inputs, task->train_rows(2, 12, 4).inputs);
  EXPECT_NE(task->train_rows(1, 12, 4).inputs, task->train_rows(1, 16, 4).inputs);
}

TEST_F(TextTaskTest, ShapeComesFromTheVocabularyAlone) {
  TaskOptions from_data = options("hello\nworld, hello again", 4);
  const auto task = make_task(from_data);
  TaskOptions without_data;
  without_data.name = "text";
  without_data.settings["length"] = 4;
  expect_error(ErrorKind::usage, {"vocabulary"}, [&] { task_shape(without_data); });
  without_data.vocabulary = task->serialized_vocabulary();
  EXPECT_EQ(task_shape(without_data).vocab_size, task->vocab_size());
  EXPECT_EQ(task_shape(without_data).input_vocab_size, task->vocab_size());
  EXPECT_EQ(task_shape(without_data).start, task->shape().start);
  EXPECT_EQ(task_shape(without_data).length, 4);
}

TEST_F(TextTaskTest, AGivenVocabularyMustCoverTheFile) {
  TaskOptions given = options("abcabcabcabc", 4);
  given.vocabulary = Vocabulary::from_text("abcde", "text").serialize();
  EXPECT_EQ(make_task(given)->vocab_size(), 5);
  given.vocabulary = Vocabulary::from_text("ab", "text").serialize();
  expect_error(ErrorKind::input,
               {path("text.txt"), "character 'c' (U+0063) at position 3", "2 tokens"},
               [&] { make_task(given); });
}

TEST_F(TextTaskTest, RefusesEmptyAndShortFiles) {
  expect_error(ErrorKind::input, {path("text.txt"), "is empty"},
               [&] { make_task(options("", 4)); });
  // 10 tokens: 9 for training hold one window of 8 + 1.
  EXPECT_EQ(make_task(options("abcdefghij", 8))->rows(Split::val), 1);
  expect_error(ErrorKind::input, {path("text.txt"), "10 tokens", "9 are", "windows of 9"},
               [&] { make_task(options("abcdefghij", 9)); });
  TaskOptions missing = options("x", 4);
  missing.settings["data"] = path("absent.txt");
  expect_error(ErrorKind::input, {path("absent.txt"), "no such file"}, [&] { make_task(missing); });
  missing.settings["data"] = path("");
  expect_error(ErrorKind::input, {"is a folder"}, [&] { make_task(missing); });
  missing.settings["data"] = "";
  expect_error(ErrorKind::usage, {"`data`"}, [&] { make_task(missing); });
}

TEST_F(TextTaskTest, TheFingerprintCoversTheTrainingData) {
  const std::string print = make_task(options("abcdefghijabcdefghij", 4))->fingerprint();
  EXPECT_EQ(print.size(), 64u);
  EXPECT_EQ(make_task(options("abcdefghijabcdefghaa", 4))->fingerprint(), print);
  EXPECT_NE(make_task(options("bacdefghijabcdefghij", 4))->fingerprint(), print);
}

TEST_F(TextTaskTest, AnyFileIsBytes) {
  std::string all;
  for (int i = 0; i < 512; ++i) all += static_cast<char>(i % 256);
  for (const std::string& file : {all, std::string("h\xC3\xA9llo, h\xC3\xA9llo, 12345")}) {
    TaskOptions chosen = options(file, 4);
    chosen.settings["bytes"] = true;
    const auto task = make_task(chosen);
    EXPECT_EQ(task->vocab_size(), 256);
    const Batch batch = task->eval_batch(Split::train, 0, 1);
    EXPECT_EQ(batch.inputs[0], '\n');
    for (size_t t = 0; t < 4; ++t) EXPECT_EQ(batch.targets[t], static_cast<unsigned char>(file[t]));
    const Vocabulary saved = Vocabulary::parse(task->serialized_vocabulary());
    EXPECT_EQ(saved.kind(), Vocabulary::Kind::bytes);
    EXPECT_EQ(saved.decode(saved.encode(file)), file);
  }
  EXPECT_EQ(make_task(options("h\xC3\xA9llo, h\xC3\xA9llo", 4))->vocab_size(),
            6);  // without it: characters
}

TEST_F(TextTaskTest, BytePairsAreTokens) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 3 == 0 ? "the caf\xC3\xA9 " : "then ";
  TaskOptions chosen = options(text, 8);
  chosen.settings["tokenizer"] = std::string("bpe");
  chosen.settings["vocab"] = int64_t{260};
  const auto task = make_task(chosen);
  EXPECT_EQ(task->vocab_size(), 260);
  EXPECT_TRUE(task->shape().byte_pairs);
  EXPECT_EQ(task->notes(), std::vector<std::string>{});
  const Vocabulary vocabulary = Vocabulary::parse(task->serialized_vocabulary());
  std::string splits;
  for (const Split split : {Split::train, Split::val})
    for (int64_t row = 0; row < task->rows(split); ++row)
      for (const int32_t token : task->eval_batch(split, row, 1).targets)
        if (token != kNotScored) splits += vocabulary.decode({token});
  EXPECT_EQ(splits, text);
  EXPECT_EQ(make_task(chosen)->fingerprint(), task->fingerprint());
  // The vocabulary of a model is used as it is.
  TaskOptions given = options("the thenthe then then the the", 2);
  given.settings["tokenizer"] = std::string("bpe");
  given.vocabulary = task->serialized_vocabulary();
  EXPECT_EQ(make_task(given)->serialized_vocabulary(), given.vocabulary);
  // More tokens than the text gives.
  chosen.settings["data"] = put("text.txt", text);
  chosen.settings["vocab"] = int64_t{65536};
  const auto all = make_task(chosen);
  EXPECT_LT(all->vocab_size(), 300);
  ASSERT_EQ(all->notes().size(), 1u);
  EXPECT_EQ(all->notes()[0],
            fmt::format("{}: gives {} byte-pair tokens, fewer than the 65536 asked for: no pair of "
                        "them occurs twice",
                        path("text.txt"), all->vocab_size()));
}

TEST_F(TextTaskTest, TokenizersAreChecked) {
  const auto refused = [&](const Settings& settings, std::initializer_list<std::string> fragments) {
    TaskOptions chosen = options(sample_text(), 16);
    for (const auto& [key, value] : settings) chosen.settings[key] = value;
    expect_error(ErrorKind::usage, fragments, [&] { make_task(chosen); });
  };
  const std::string bpe = "bpe", bytes = "bytes", words = "words";
  refused({{"tokenizer", bpe}, {"vocab", int64_t{256}}},
          {"`vocab` is 256; it must be at least 257: the 256 bytes are tokens"});
  refused({{"tokenizer", bpe}, {"vocab", int64_t{65537}}}, {"`vocab` is 65537", "65536"});
  refused({{"tokenizer", words}}, {"'words'", "char, bytes, bpe"});
  refused({{"vocab", int64_t{300}}}, {"`vocab` has a meaning only with `tokenizer` bpe"});
  refused({{"tokenizer", bpe}, {"bytes", true}}, {"`bytes`", "`tokenizer` bpe", "contradict"});
  refused({{"tokenizer", bytes}, {"bytes", false}}, {"`bytes`", "`tokenizer` bytes", "contradict"});
  TaskOptions both = options(sample_text(), 16);
  both.settings["tokenizer"] = bytes;
  both.settings["bytes"] = true;
  EXPECT_EQ(make_task(both)->vocab_size(), 256);
}

// Bytes are asked for: a tar archive too, but .gz and .zip are unpacked.
TEST_F(TextTaskTest, BytesAreTakenFromAnyKindOfFile) {
  TaskOptions chosen = options(tar_file("book.txt", "a text"), 4);
  expect_error(ErrorKind::input, {path("text.txt"), "is a tar archive"},
               [&] { make_task(chosen); });
  chosen.settings["bytes"] = true;
  EXPECT_EQ(make_task(chosen)->rows(Split::train), (1024 * 9 / 10 + 3) / 4);
  const std::string text = sample_text();
  chosen.settings["data"] = put("packed.gz", gzip(text));
  EXPECT_EQ(make_task(chosen)->rows(Split::train), (902 + 3) / 4);
  chosen.settings["data"] = put("packed.bin", gzip(text));
  EXPECT_LT(make_task(chosen)->rows(Split::train), (902 + 3) / 4);
}

TEST_F(TextTaskTest, AByteOrderMarkIsNoToken) {
  const auto plain = make_task(options(sample_text(), 16));
  const auto marked = make_task(options("\xEF\xBB\xBF" + sample_text(), 16));
  EXPECT_EQ(marked->serialized_vocabulary(), plain->serialized_vocabulary());
  EXPECT_EQ(marked->fingerprint(), plain->fingerprint());
}

TEST_F(TextTaskTest, NamesWhatIsNotUtf8) {
  const auto notes = [&](const std::string& text, bool bytes = false) {
    TaskOptions chosen = options(text, 4);
    chosen.settings["bytes"] = bytes;
    return make_task(chosen)->notes();
  };
  using Notes = std::vector<std::string>;
  const std::string latin = "h\xE9llo, h\xE9llo, hello", file = path("text.txt");
  EXPECT_EQ(notes("h\xC3\xA9llo, h\xC3\xA9llo"), Notes{});
  EXPECT_EQ(notes(latin),
            Notes{file + ": not UTF-8 at byte 2: read as bytes (it seems to be ISO-8859-1; "
                         "convert it by iconv -f ISO-8859-1 -t UTF-8)"});
  EXPECT_EQ(notes("\x93Hello\x94, hello"),
            Notes{file + ": not UTF-8 at byte 1: read as bytes (it seems to be WINDOWS-1252; "
                         "convert it by iconv -f WINDOWS-1252 -t UTF-8)"});
  EXPECT_EQ(notes("h\xC3\xA9llo, h\xC3\xA9llo, h\xE9llo"),
            Notes{file + ": not UTF-8 at byte 18: read as bytes (most of it is UTF-8; leave the "
                         "other bytes out by iconv -c -f UTF-8 -t UTF-8)"});
  EXPECT_EQ(notes("h\xE9llo, \1\2\3\4"), Notes{file + ": not UTF-8 at byte 2: read as bytes"});
  EXPECT_EQ(notes("hello, hello\xC3"), Notes{file + ": not UTF-8 at byte 13: read as bytes"});
  EXPECT_EQ(notes(latin, true), Notes{});  // asked for
  std::string wide = "\xFF\xFE";
  for (const char c : std::string("hello, hello")) wide += std::string(1, c) + '\0';
  EXPECT_EQ(notes(wide),
            Notes{file + ": not UTF-8 at byte 1: read as bytes (it is UTF-16; convert it by "
                         "iconv -f UTF-16 -t UTF-8)"});
  EXPECT_EQ(notes(wide.substr(2)),  // without the byte order mark: characters and zeros
            Notes{file + ": every character has bytes that are 0 (it seems to be UTF-16LE; convert "
                         "it by iconv -f UTF-16LE -t UTF-8)"});
  std::string wider("\0\0\xFE\xFF", 4);
  for (const char c : std::string("hello, hello")) wider += std::string(3, '\0') + c;
  EXPECT_NE(notes(wider).at(0).find("it is UTF-32;"), std::string::npos);
  EXPECT_NE(notes(wider.substr(4)).at(0).find("seems to be UTF-32BE;"), std::string::npos);
}

TEST_F(TextTaskTest, UnpacksGzip) {
  const std::string text = sample_text(), packed = gzip(text);
  const auto task_of = [&](const std::string& name, const std::string& file) {
    TaskOptions chosen = options(text, 16);
    chosen.settings["data"] = put(name, file);
    return make_task(chosen);
  };
  const auto plain = task_of("plain.txt", text);
  EXPECT_EQ(task_of("text.txt.gz", packed)->fingerprint(), plain->fingerprint());
  EXPECT_EQ(task_of("two.gz", gzip(text.substr(0, 500)) + gzip(text.substr(500)))->fingerprint(),
            plain->fingerprint());
  for (const size_t kept : {packed.size() / 2, packed.size() - 1, packed.size() - 6, size_t{11}})
    expect_error(ErrorKind::input, {path("cut.gz"), "truncated"},
                 [&] { task_of("cut.gz", packed.substr(0, kept)); });
  for (const size_t place : {packed.size() / 2, packed.size() - 6, packed.size() - 1}) {
    std::string damaged = packed;  // the data, its CRC, its length
    damaged[place] = static_cast<char>(damaged[place] ^ 1);
    expect_error(ErrorKind::input, {path("bad.gz"), "damaged"},
                 [&] { task_of("bad.gz", damaged); });
  }
  for (const char* name : {"text.GZ", "text", "text.txt"})
    EXPECT_EQ(task_of(name, packed)->fingerprint(), plain->fingerprint()) << name;
  expect_error(ErrorKind::input, {path("no.gz"), "is not gzip"}, [&] { task_of("no.gz", text); });
  expect_error(ErrorKind::input, {path("empty.gz"), "is empty"},
               [&] { task_of("empty.gz", gzip("")); });
  expect_error(ErrorKind::input, {path("text.txt.gz"), "more than 1002 bytes"},
               [&] { read_gzip(path("text.txt.gz"), 1002); });
  EXPECT_EQ(read_gzip(path("text.txt.gz"), 1003), text);
}

}  // namespace
}  // namespace linea
