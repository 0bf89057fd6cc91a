// The fuzz targets under any compiler: the seeds of tests/fuzz/corpus/, each cut at every third length,
// and each changed at random, in the same way every time.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "base/error.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"
#include "tests/sanitized.h"

namespace linea::fuzz {
namespace {

struct Seed {
  std::string name, bytes;
};

class Replay : public testing::TestWithParam<NamedTarget> {
 protected:
  // Seeds of the target, sorted by name.
  static std::vector<Seed> seeds() {
    std::vector<Seed> found;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(LINEA_FUZZ_CORPUS) / GetParam().name)) {
      std::ifstream file(entry.path(), std::ios::binary);
      found.push_back(
          {entry.path().filename().string(), {std::istreambuf_iterator<char>(file), {}}});
    }
    std::sort(found.begin(), found.end(),
              [](const Seed& a, const Seed& b) { return a.name < b.name; });
    return found;
  }

  // False, with a failure that says what broke, where the promise does not hold. The copy has
  // exactly the bytes, so that a sanitizer sees the first one past them.
  static bool holds(const std::string& bytes, const std::string& what) {
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
    try {
      GetParam().run(exact.data(), exact.size());
      return true;
    } catch (const std::exception& error) {
      ADD_FAILURE() << GetParam().name << ", " << what << ": " << error.what();
      return false;
    }
  }
};

// Bits, bytes, numbers and ranges as a damaged disk or an attacker would change them.
std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](size_t bound) {
    return static_cast<size_t>(random() % std::max<size_t>(bound, 1));
  };
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t position = below(bytes.size()),
                 length = std::min(1 + below(16), bytes.size() - position);
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) bytes[position] = static_cast<char>(bytes[position] ^ 1 << below(8));
        break;
      case 1:
        if (!bytes.empty()) bytes[position] = static_cast<char>(random());
        break;
      case 2:  // the ends of the ranges of whole numbers, as bytes
        bytes.replace(position, length, length, below(2) == 0 ? '\xFF' : '\0');
        break;
      case 3:
        bytes.erase(position, length);
        break;
      case 4:
        bytes.insert(position, bytes.substr(below(bytes.size()), length));
        break;
      default:  // and as digits
        bytes.insert(position, std::to_string(random() >> below(64)));
    }
  }
  return bytes;
}

TEST_P(Replay, SeedsGiveAValueOrAnError) {
  const std::vector<Seed> all = seeds();
  EXPECT_GE(all.size(), 2u);
  for (const Seed& seed : all) holds(seed.bytes, seed.name);
  holds("", "no bytes");
}

TEST_P(Replay, CutsGiveAValueOrAnError) {
  for (const Seed& seed : seeds())
    for (size_t length = 0; length < seed.bytes.size();
         length += kSanitized ? 5 + seed.bytes.size() / 150 : 3)
      if (!holds(seed.bytes.substr(0, length),
                 fmt::format("{} cut to {} bytes", seed.name, length)))
        return;
}

TEST_P(Replay, ChangesGiveAValueOrAnError) {
  const int kChanges = kSanitized ? 100 : 300;
  std::mt19937_64 random(20261121);
  for (const Seed& seed : seeds())
    for (int i = 0; i < kChanges; ++i)
      if (!holds(mutated(seed.bytes, random), fmt::format("{} after change {}", seed.name, i)))
        return;
}

INSTANTIATE_TEST_SUITE_P(Readers, Replay, testing::ValuesIn(kTargets),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

// Readers that follow a file's nesting with their own stack would end here.
TEST(Depth, IsSafe) {
  const size_t kDepth = kSanitized ? 10'000 : 30'000;
  const std::string lists = std::string(kDepth, '[') + std::string(kDepth, ']');
  std::string objects, dots = "a";
  for (size_t i = 0; i < kDepth; ++i) objects += "{\"a\":", dots += ".a";
  const std::string texts[] = {
      lists,
      objects,
      "[" + dots + "]",
      dots + " = 1",
      "task = " + lists,
      R"({"manifest":)" + lists + R"(,"step":7,"config_sha256":"","files":[1]})",
      R"({"manifest":1,"step":)" + lists + R"(,"config_sha256":"","files":[1]})",
      R"({"kind":)" + lists + R"(,"tokens":[1]})",
      R"({"step":1,"loss":)" + lists + "}",
      R"({"step":1,"updates":1,"environment":)" + lists + "}"};
  for (const NamedTarget& target : kTargets)
    for (const std::string& text : texts) {
      const std::vector<uint8_t> bytes(text.begin(), text.end());
      EXPECT_NO_THROW(target.run(bytes.data(), bytes.size()))
          << target.name << ": " << text.substr(0, 40);
    }
}

TEST(Promise, HoldsForValuesAndErrorsOfInputAndUsage) {
  expect_value_or_error(0, [] {});
  expect_value_or_error(0, [] { fail(ErrorKind::input, "a file is damaged"); });
  expect_value_or_error(0, [] { fail(ErrorKind::usage, "a setting cannot be"); });
}

TEST(Promise, IsBrokenByEverythingElse) {
  EXPECT_THROW(expect_value_or_error(0, [] { fail(ErrorKind::memory, "too large"); }), Broken);
  EXPECT_THROW(expect_value_or_error(0, [] { fail(ErrorKind::input, "two\nlines"); }), Broken);
  EXPECT_THROW(expect_value_or_error(0, [] { fail(ErrorKind::input, "a terminal's \x1b[2J"); }),
               Broken);
  EXPECT_THROW(expect_value_or_error(0, [] { throw std::out_of_range("map::at"); }),
               std::out_of_range);
}

TEST(Promise, IsBrokenByExcessiveMemory) {
  const auto takes = [](size_t bytes) { return [bytes] { std::vector<char>(bytes).front() = 1; }; };
  const Budget budget{1000, 2};
  expect_value_or_error(
      100, [] {}, budget);
  if (counts_memory()) {
    expect_value_or_error(100, takes(1200), budget);
    EXPECT_THROW(expect_value_or_error(100, takes(1201), budget), Broken);
  } else {  // without a sanitizer nothing is measured, and nothing is refused
    expect_value_or_error(100, takes(1201), budget);
  }
}

}  // namespace
}  // namespace linea::fuzz
