#include "data/readers/idx.h"

#include "tests/data/data_helpers.h"
#include "tests/data/readers/idx_bytes.h"

namespace linea {
namespace {

using IdxTest = DataTest;

// 3,000 bytes that gzip cannot shrink much, so that a cut falls into the data.
std::string noise() {
  std::string bytes;
  for (uint32_t i = 0, state = 1; i < 3000; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

TEST_F(IdxTest, ReadsPlainAndGzip) {
  const std::string payload = noise();
  const std::string bytes = idx_bytes({30, 10, 10}, payload);
  for (const std::string& file : {put("plain", bytes), put("packed", gzip(bytes))}) {
    const IdxFile idx = read_idx(file, 3);
    EXPECT_EQ(idx.sizes, (std::vector<int64_t>{30, 10, 10}));
    EXPECT_EQ(std::string(idx.bytes.begin(), idx.bytes.end()), payload);
  }
}

TEST_F(IdxTest, RefusesAnotherFormat) {
  std::string bytes = idx_bytes({4}, "abcd");
  expect_error(ErrorKind::input, {path("rank"), "00000801", "00000803"},
               [&] { read_idx(put("rank", bytes), 3); });
  bytes[2] = '\x0D';  // floats
  expect_error(ErrorKind::input, {path("floats"), "00000d01"},
               [&] { read_idx(put("floats", bytes), 1); });
  expect_error(ErrorKind::input, {path("text"), "48656c6c"},
               [&] { read_idx(put("text", "Hello, world"), 1); });
}

TEST_F(IdxTest, RefusesTooFewAndTooManyBytes) {
  const std::string good = idx_bytes({30, 10, 10}, noise());
  const std::string cut = good.substr(0, good.size() - 1), longer = good + "x";
  expect_error(ErrorKind::input, {path("cut"), "declares 3016", "has 3015"},
               [&] { read_idx(put("cut", cut), 3); });
  expect_error(ErrorKind::input, {path("longer"), "declares 3016", "has 3017"},
               [&] { read_idx(put("longer", longer), 3); });
  expect_error(ErrorKind::input, {path("cut.gz"), "3015", "3016"},
               [&] { read_idx(put("cut.gz", gzip(cut)), 3); });
  expect_error(ErrorKind::input, {path("longer.gz"), "more than the 3016"},
               [&] { read_idx(put("longer.gz", gzip(longer)), 3); });
  expect_error(ErrorKind::input, {path("header")},
               [&] { read_idx(put("header", good.substr(0, 9)), 3); });
  expect_error(ErrorKind::input, {path("empty"), "0 bytes"},
               [&] { read_idx(put("empty", ""), 3); });
}

TEST_F(IdxTest, RefusesAbsurdSizesBeforeAllocating) {
  for (const bool packed : {false, true}) {
    const auto file = [&](const std::vector<uint32_t>& sizes) {
      const std::string bytes = idx_bytes(sizes, "abc");
      return put("absurd", packed ? gzip(bytes) : bytes);
    };
    expect_error(ErrorKind::input, {path("absurd"), "2147483648"},
                 [&] { read_idx(file({1u << 31}), 1); });
    expect_error(ErrorKind::input, {"4294967295"}, [&] {
      read_idx(file({0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu}), 3);
    });
    expect_error(ErrorKind::input, {"size 0 of axis 1"}, [&] { read_idx(file({3, 0, 1}), 3); });
    expect_error(ErrorKind::input, {"declares 1000000008"},
                 [&] { read_idx(file({1000000000u}), 1); });
  }
}

TEST_F(IdxTest, RefusesDamagedGzip) {
  const std::string packed = gzip(idx_bytes({30, 10, 10}, noise()));
  for (const size_t kept : {packed.size() - 1, packed.size() / 2, size_t{12}})
    expect_error(ErrorKind::input, {path("cut.gz"), "cut"},
                 [&] { read_idx(put("cut.gz", packed.substr(0, kept)), 3); });
  for (const size_t position : {packed.size() / 2, packed.size() - 6}) {
    std::string corrupt = packed;
    corrupt[position] = static_cast<char>(corrupt[position] ^ 0x55);
    expect_error(ErrorKind::input, {path("corrupt.gz"), "damaged"},
                 [&] { read_idx(put("corrupt.gz", corrupt), 3); });
  }
}

TEST_F(IdxTest, RefusesFolders) {
  expect_error(ErrorKind::input, {path("absent"), "no such file"},
               [&] { read_idx(path("absent"), 1); });
  expect_error(ErrorKind::input, {path(""), "is a folder"}, [&] { read_idx(path(""), 1); });
  expect_error(ErrorKind::input, {"/dev/zero", "not a regular file"},
               [&] { read_idx("/dev/zero", 1); });
}

}  // namespace
}  // namespace linea
