// Memory that is cut and joined: spans never overlap, and what is released is found again.
#include "tensor/span_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace linea {
namespace {

constexpr size_t kUnit = size_t{64} << 10;

// Addresses stand for memory: the pool reads and writes none.
std::byte* at(size_t address) { return reinterpret_cast<std::byte*>(address); }

TEST(SpanPool, TakesTheSmallestSpanAndLeavesTheRest) {
  SpanPool pool;
  EXPECT_EQ(pool.take(kUnit), nullptr);
  pool.add(at(100 * kUnit), 8 * kUnit);
  pool.add(at(300 * kUnit), 3 * kUnit);
  EXPECT_EQ(pool.release(at(100 * kUnit)), 8 * kUnit);
  EXPECT_EQ(pool.release(at(300 * kUnit)), 3 * kUnit);
  EXPECT_EQ(pool.take(2 * kUnit), at(300 * kUnit));
  EXPECT_EQ(pool.take(2 * kUnit), at(100 * kUnit));
  EXPECT_EQ(pool.take(6 * kUnit), at(102 * kUnit));
  EXPECT_EQ(pool.take(2 * kUnit), nullptr);
  EXPECT_EQ(pool.take(kUnit), at(302 * kUnit));
}

TEST(SpanPool, JoinsNeighborsOfOneSegment) {
  for (const std::vector<size_t>& order :
       {std::vector<size_t>{100, 102, 104}, {104, 102, 100}, {100, 104, 102}}) {
    SpanPool pool;
    pool.add(at(100 * kUnit), 6 * kUnit);
    pool.add(at(106 * kUnit), 4 * kUnit);  // adjacent, another segment
    pool.release(at(100 * kUnit));
    for (int i = 0; i < 3; ++i) ASSERT_NE(pool.take(2 * kUnit), nullptr);
    pool.release(at(106 * kUnit));
    for (const size_t address : order) pool.release(at(address * kUnit));
    EXPECT_EQ(pool.take(7 * kUnit), nullptr);
    EXPECT_EQ(pool.take(6 * kUnit), at(100 * kUnit));
  }
}

TEST(SpanPool, GivesBackWholeSegments) {
  SpanPool pool;
  pool.add(at(100 * kUnit), 4 * kUnit);
  pool.add(at(200 * kUnit), 4 * kUnit);
  pool.release(at(100 * kUnit));
  pool.release(at(200 * kUnit));
  EXPECT_EQ(pool.take(2 * kUnit), at(100 * kUnit));
  std::vector<void*> given;
  const auto give_back = [&](void* segment) { given.push_back(segment); };
  EXPECT_EQ(pool.give_back_free(give_back), 4 * kUnit);
  EXPECT_EQ(given, std::vector<void*>{at(200 * kUnit)});
  pool.release(at(100 * kUnit));
  EXPECT_EQ(pool.give_back_free(give_back), 4 * kUnit);
  EXPECT_EQ(pool.take(kUnit), nullptr);
}

// Against a list of what is in use.
TEST(SpanPool, SpansInUseNeverOverlap) {
  SpanPool pool;
  struct Use {
    std::byte* address;
    size_t size;
  };
  std::vector<Use> uses;
  size_t next_segment = kUnit, in_segments = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const RandomWords words = random_words({1, Purpose::test, 1, 0}, i);
    if (words.word[0] % 2 == 0 && !uses.empty()) {
      const size_t index = words.word[1] % uses.size();
      pool.release(uses[index].address);
      uses.erase(uses.begin() + static_cast<std::ptrdiff_t>(index));
      continue;
    }
    const size_t size = 64 * (1 + words.word[1] % 20000);
    auto* address = static_cast<std::byte*>(pool.take(size));
    if (address == nullptr) {
      address = at(next_segment);
      pool.add(address, size);
      next_segment += size;
      in_segments += size;
    }
    for (const Use& use : uses)
      ASSERT_TRUE(address + size <= use.address || use.address + use.size <= address);
    uses.push_back({address, size});
  }
  for (const Use& use : uses) pool.release(use.address);
  EXPECT_EQ(pool.give_back_free([](void*) {}), in_segments);
}

}  // namespace
}  // namespace linea
