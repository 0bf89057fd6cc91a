// Counter-based random numbers: known answers, moments, permutations.
#include "base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace linea {
namespace {

constexpr RandomStream kStream{42, Purpose::test, 3, 7};

// philox4x32-10 in the known answers that come with Salmon et al. 2011.
TEST(Random, PhiloxKnownAnswers) {
  const auto words = [](uint64_t key, RandomWords counter) {
    const RandomWords w = philox(key, counter);
    return std::vector<uint32_t>(w.word, w.word + 4);
  };
  EXPECT_EQ(words(0, {{0, 0, 0, 0}}),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(words(~uint64_t{0}, {{ones, ones, ones, ones}}),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x299f31d0a4093822, {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, EveryPartOfAStreamMatters) {
  const uint32_t word = random_word(kStream, 5);
  const auto changed = [&](auto change) {
    RandomStream other = kStream;
    change(other);
    return random_word(other, 5) != word;
  };
  EXPECT_TRUE(changed([](RandomStream& s) { s.seed ^= 1; }));
  EXPECT_TRUE(changed([](RandomStream& s) { s.seed ^= uint64_t{1} << 63; }));
  EXPECT_TRUE(changed([](RandomStream& s) { s.purpose = Purpose::init; }));
  EXPECT_TRUE(changed([](RandomStream& s) { s.stream_id = 4; }));
  EXPECT_TRUE(changed([](RandomStream& s) { s.stream_id = 3 + (1 << 15); }));
  EXPECT_TRUE(changed([](RandomStream& s) { s.step = 8; }));
  EXPECT_TRUE(changed([](RandomStream& s) { s.step += uint64_t{1} << 39; }));
  EXPECT_NE(random_word(kStream, 5 + (uint64_t{1} << 40)), word);
  EXPECT_EQ(random_word(kStream, 5), word);
}

TEST(Random, UniformIsOpenAtBothEnds) {
  EXPECT_GT(word_to_uniform(0), 0.0f);
  EXPECT_LT(word_to_uniform(0xffffffff), 1.0f);
  constexpr int kCount = 400000;
  std::vector<int> bins(64, 0);
  double total = 0, squares = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = random_uniform(kStream, i);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    total += u;
    squares += u * u;
    ++bins[static_cast<size_t>(u * 64)];
  }
  EXPECT_NEAR(total / kCount, 0.5, 2e-3);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 2e-3);
  for (const int bin : bins) EXPECT_NEAR(bin, kCount / 64.0, 5 * std::sqrt(kCount / 64.0));
}

TEST(Random, NormalMomentsAndTails) {
  constexpr int kCount = 400000;
  double moment[5] = {};
  int beyond2 = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double z = random_normal(kStream, i);
    for (int power = 1; power < 5; ++power) moment[power] += std::pow(z, power) / kCount;
    beyond2 += std::abs(z) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(moment[1], 0, 8e-3);
  EXPECT_NEAR(moment[2], 1, 1.2e-2);
  EXPECT_NEAR(moment[3], 0, 3e-2);
  EXPECT_NEAR(moment[4], 3, 8e-2);
  EXPECT_NEAR(static_cast<double>(beyond2) / kCount, 0.0455, 1.7e-3);
}

TEST(Random, BelowIsEvenAndInRange) {
  std::vector<int> bins(7, 0);
  for (uint64_t i = 0; i < 70000; ++i) ++bins.at(random_below(kStream, i, 7));
  for (const int bin : bins) EXPECT_NEAR(bin, 10000, 500);
  EXPECT_EQ(random_below(kStream, 9, 1), 0u);
}

TEST(Random, PermutationsAreBijections) {
  for (const uint64_t count : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4097}) {
    std::set<uint64_t> images;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t image = random_permutation(kStream, count, i);
      ASSERT_LT(image, count);
      images.insert(image);
    }
    EXPECT_EQ(images.size(), count);
  }
}

// Each of 5 places goes to each of 5 places about as often, over the streams.
TEST(Random, PermutationsAreUniform) {
  constexpr int kDraws = 20000;
  int hits[5][5] = {};
  RandomStream stream = kStream;
  for (int sample = 0; sample < kDraws; ++sample) {
    stream.step = static_cast<uint64_t>(sample);
    for (uint64_t i = 0; i < 5; ++i) ++hits[i][random_permutation(stream, 5, i)];
  }
  for (const auto& row : hits)
    for (const int hit : row) EXPECT_NEAR(hit, kDraws / 5.0, 5 * std::sqrt(kDraws / 5.0));
}

}  // namespace
}  // namespace linea
