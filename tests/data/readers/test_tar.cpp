#include "data/readers/tar.h"

#include "tests/data/data_helpers.h"
#include "tests/data/readers/idx_bytes.h"
#include "tests/data/readers/tar_bytes.h"

namespace linea {
namespace {

class TarTest : public DataTest {
 protected:
  // "name=bytes" of each plain file.
  std::vector<std::string> entries(const std::string& archive) const {
    std::vector<std::string> found;
    TarReader reader(put("a.tar", archive));
    while (reader.next()) {
      const std::string name = reader.entry_name();
      found.push_back(name + "=" + reader.read_entry(1 << 20));
    }
    return found;
  }
};

const std::string kTwo =
    tar_file("folder/a", "hello") + tar_file("b", std::string(1000, 'x')) + kTarEnd;

TEST_F(TarTest, ReadsPlainAndCompressedArchives) {
  const std::vector<std::string> expected{"folder/a=hello", "b=" + std::string(1000, 'x')};
  EXPECT_EQ(entries(kTwo), expected);
  EXPECT_EQ(entries(gzip(kTwo)), expected);
}

TEST_F(TarTest, SkipsOtherEntries) {
  const std::string archive = tar_entry("folder", "", '5', 0) + tar_entry("link", "", '1', 700) +
                              tar_entry("note", "12 size=99\n", 'x', 11) +
                              tar_file("a", std::string(600, 'a')) + tar_file("empty", "") +
                              tar_entry("c", "deep", '0', 4, "very/long") + kTarEnd;
  TarReader reader(put("a.tar", archive));
  std::vector<std::string> names;
  while (reader.next()) names.push_back(reader.entry_name());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "empty", "very/long/c"}));
}

TEST_F(TarTest, ComparesTheChecksumOfEveryHeader) {
  for (const size_t position : {size_t{0}, size_t{130}, size_t{150}, size_t{300}, size_t{1024}}) {
    std::string damaged = kTwo;
    damaged[position] = static_cast<char>(damaged[position] ^ 1);
    expect_error(ErrorKind::input, {path("a.tar"), "no valid tar header"},
                 [&] { entries(damaged); });
  }
  expect_error(ErrorKind::input, {"no valid tar header at byte 0"},
               [&] { entries("this is no archive"); });
}

TEST_F(TarTest, DetectsTruncationAndDamage) {
  expect_error(ErrorKind::input, {"ends inside b"},
               [&] { entries(kTwo.substr(0, 1024 + 512 + 100)); });
  const std::string packed = gzip(kTwo);
  expect_error(ErrorKind::input, {"is truncated"},
               [&] { entries(packed.substr(0, packed.size() - 4)); });
  std::string damaged = packed;
  damaged[damaged.size() - 6] =
      static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // of gzip's checksum
  expect_error(ErrorKind::input, {"is damaged"}, [&] { entries(damaged); });
}

TEST_F(TarTest, RefusesImpossibleSizes) {
  expect_error(ErrorKind::input, {"a has the impossible size", "77777777777"},
               [&] { entries(tar_entry("a", "", '0', 077777777777)); });
  expect_error(ErrorKind::input, {"a has 1073741824 bytes"},
               [&] { entries(tar_entry("a", "", '0', int64_t{1} << 30)); });
  TarReader reader(put("a.tar", kTwo));
  ASSERT_TRUE(reader.next());
  expect_error(ErrorKind::input, {"folder/a has 5 bytes", "at most 4"},
               [&] { reader.read_entry(4); });
}

}  // namespace
}  // namespace linea
