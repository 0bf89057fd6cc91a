// Keys that hash alike: limits, a case by hand, decisions that are alike everywhere, and what known
// implementations leak.
#include <algorithm>
#include <cmath>

#include "autograd/buckets.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention/future.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> lsh(int64_t rounds, int64_t buckets, int64_t window, const Sizes& sizes,
                               DType dtype, uint64_t seed = 1) {
  AttentionOptions options =
      options_of("lsh", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = {{"rounds", rounds}, {"buckets", buckets}, {"window", window}};
  options.length = sizes.length;
  options.seed = seed;
  return make_attention(options);
}

// The definition with one bucket: all keys apart from the query's own.
Var without_self(const AttentionInputs& in, const AttentionMask& mask) {
  return naive::softmax_attention(
      matmul(in.q, unit_rows(in.q, 1), false, true), in.v, mask,
      [&](int64_t, int64_t i, int64_t j) { return i != j || (i == 0 && mask.causal); });
}

TEST(Lsh, OfOneBucketIsSoftmaxOfSharedKeysWithoutSelf) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  for (const bool causal : {true, false})
    for (const auto& [rounds, window] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 90}, {3, 2000000000}}) {
      const Outcome found =
          run(*lsh(rounds, 1, window, sizes, DType::f64), &Attention::forward, x, {causal, {}});
      const Var q(x.q, true), v(x.v, true), y = without_self({q, Var(), v, Var()}, {causal, {}});
      backward(y, x.dy);
      EXPECT_LE(relative_error(found.y, y.value()), 1e-12);
      EXPECT_LE(relative_error(found.dq, q.grad()), 1e-12);
      EXPECT_LE(relative_error(found.dv, v.grad()), 1e-12);
    }
}

// q = 1, -1, 2: rows 0 and 2 hash alike. Row 2 sees row 0 alone, with weight 1 whatever the score; rows 0
// and 1 see nothing but themselves.
TEST(Lsh, ThreeRowsByHand) {
  const Sizes sizes{1, 1, 3, 1, 1};
  const auto column = [](double a, double b, double c) {
    return Var(Tensor::from(std::vector<double>{a, b, c}, {1, 1, 3, 1}));
  };
  const AttentionInputs in{column(1, -1, 2), Var(), column(10, 20, 30), Var()};
  const auto attention = lsh(4, 2, 128, sizes, DType::f64);
  EXPECT_EQ(attention->forward(in, {}).value().to_doubles(), (std::vector<double>{10, 20, 10}));
  EXPECT_EQ(attention->forward(in, {false, {}}).value().to_doubles(),
            (std::vector<double>{30, 20, 10}));
}

// A key in two rounds counts once, and the second round then adds nothing.
TEST(Lsh, EqualRoundsHaveTheBitsOfOne) {
  const Sizes sizes{2, 2, 300, 5, 7};
  const Inputs x = draw(sizes, DType::f32);
  const auto one = lsh(1, 6, 20, sizes, DType::f32), two = lsh(2, 6, 20, sizes, DType::f32);
  const Tensor from = one->buffers().at(0).tensor;  // [H,1,D,3]
  std::vector<double> twice;
  const std::vector<double> values = from.to_doubles();
  for (size_t head = 0; head < 2; ++head)
    for (int copy = 0; copy < 2; ++copy)
      twice.insert(twice.end(), values.begin() + static_cast<std::ptrdiff_t>(head * 15),
                   values.begin() + static_cast<std::ptrdiff_t>((head + 1) * 15));
  write_values(twice, two->buffers().at(0).tensor);
  const Outcome expected = run(*one, &Attention::forward, x, {}),
                found = run(*two, &Attention::forward, x, {});
  EXPECT_EQ(different_bits(found.y, expected.y, anywhere), 0);
  EXPECT_EQ(different_bits(found.dq, expected.dq, anywhere), 0);
  EXPECT_EQ(different_bits(found.dv, expected.dv, anywhere), 0);
}

// More rounds find more of the keys with large weights.
TEST(Lsh, ErrorFallsWithRounds) {
  const Sizes sizes{1, 2, 256, 8, 4};
  const Inputs x = draw(sizes, DType::f64, 2.0);
  const Tensor exact = without_self({Var(x.q), Var(), Var(x.v), Var()}, {}).value();
  double last = 1e9;
  for (const int64_t rounds : {1, 4, 8, 16}) {
    double error = 0;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const Tensor y = lsh(rounds, 16, 256, sizes, DType::f64, seed)
                           ->forward({Var(x.q), Var(), Var(x.v), Var()}, {})
                           .value();
      const Tensor difference = ops::add(y, ops::scale(exact, -1));
      for (const double d : difference.to_doubles()) error += d * d;
    }
    EXPECT_LT(error, 0.9 * last) << rounds;
    last = error;
  }
}

TEST(Lsh, BucketsFollowFromTheLength) {
  const auto buckets = [](int64_t length, int64_t window) {
    const Sizes sizes{1, 1, length, 4, 4};
    return 2 * lsh(1, 0, window, sizes, DType::f32)->buffers().at(0).tensor.size(3);
  };
  EXPECT_EQ(buckets(1024, 128), 16);
  EXPECT_EQ(buckets(1025, 128), 18);
  EXPECT_EQ(buckets(40, 128), 2);
  EXPECT_THROW(lsh(1, 3, 128, {}, DType::f32), Error);
}

TEST(Lsh, DecidesAlikeInFloatAndDoubleAndWithAnyThreads) {
  const Sizes sizes{2, 3, 300, 8, 4};
  const Inputs x = draw(sizes, DType::f32);
  const auto hashes = [&](DType dtype, Method method) {
    return run(*lsh(3, 12, 20, sizes, dtype), method, in_dtype(x, dtype), {})
        .decisions.at(0)
        .to_vector<int32_t>();
  };
  const std::vector<int32_t> expected = hashes(DType::f32, &Attention::forward);
  EXPECT_EQ(hashes(DType::f64, &Attention::forward), expected);
  EXPECT_EQ(hashes(DType::f64, &Attention::quadratic), expected);
  for (const int threads : {1, 2, 3}) {
    const Threads own(threads);
    EXPECT_EQ(hashes(DType::f32, &Attention::forward), expected);
  }
  EXPECT_EQ(*std::max_element(expected.begin(), expected.end()), 11);
}

// Tiles of buckets are partly empty; a gap is in no pair.
TEST(Lsh, PairsAreThoseOfPositions) {
  const std::vector<int32_t> queries = {0, 1, 0, 0, 1, -1, 0}, keys = {0, 1, 1, 0, -1, 0, 0};
  for (const int32_t window : {2, 50}) {
    std::vector<BucketRanges> rounds;
    BucketRanges& ranges = rounds.emplace_back(queries, keys, 2);
    int64_t pairs = 3;  // of the second part
    for (int64_t i = 0; i < 7; ++i) {
      const auto at = static_cast<size_t>(i);
      ranges.first[at] = ranges.before[at] - window + 1;
      ranges.end[at] = ranges.before[at] + window;
    }
    for (int64_t i = 0; i < 7; ++i)
      for (int64_t j = 0; j < 7; ++j) pairs += i != j && ranges.sees(i, j) ? 1 : 0;
    std::vector<KeyTiles::Lists> lists;
    lists.push_back(bucket_tiles(rounds, 0));
    lists.push_back(own_keys({0, 3, 6}));
    EXPECT_EQ(KeyTiles(7, 7, std::move(lists)).pairs(), pairs) << window;
  }
}

// A backward pass does not need the attention that made y.
TEST(Lsh, BackwardOutlivesTheAttention) {
  const Sizes sizes{1, 2, 70, 4, 3};
  const Inputs x = draw(sizes, DType::f64);
  auto attention = lsh(2, 4, 10, sizes, DType::f64);
  const Outcome expected = run(*attention, &Attention::forward, x, {});
  const AttentionInputs in = inputs_for(*attention, x, true);
  const Var y = attention->forward(in, {});
  attention = lsh(5, 8, 3, sizes, DType::f64);
  backward(y, x.dy);
  EXPECT_EQ(different_bits(in.q.grad(), expected.dq, anywhere), 0);
}

TEST(Lsh, RowsDoNotDependOnTheFuture) {
  expect_no_future(*lsh(3, 4, 30, {1, 2, 260, 5, 4}, DType::f32), 260);
}

TEST(Lsh, RedrawsByTheStep) {
  AttentionOptions options = options_of("lsh", 2, 4, 4, DType::f32);
  options.settings = {{"redraw", int64_t{3}}, {"buckets", int64_t{8}}};
  const auto attention = make_attention(options), again = make_attention(options);
  const auto rotations = [](const Attention& of) { return of.buffers().at(0).tensor.to_doubles(); };
  const std::vector<double> first = rotations(*attention);
  for (int64_t step = 0; step < 3; ++step) attention->before_step(step, 10);
  EXPECT_EQ(rotations(*attention), first);
  attention->before_step(3, 10);
  EXPECT_NE(rotations(*attention), first);
  again->before_step(3, 10);
  EXPECT_EQ(rotations(*attention), rotations(*again));
}

// What other implementations do: positions sorted by bucket are cut into chunks, and a row sees its own chunk
// and the one before. How many later positions fall into lower buckets moves the cuts. `leaks` false:
// cut in each bucket.
template <bool leaks>
class ChunksOfSortedPositions final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    constexpr int64_t kChunk = 16;
    Decisions decisions;
    {
      const RecordDecisions record(decisions);
      right_->forward(in, mask);
    }
    const int64_t N = in.q.size(2), BH = in.q.size(0) * in.q.size(1), rounds = decisions[0].size(2);
    const std::vector<int32_t> hashes = decisions[0].to_vector<int32_t>();
    std::vector<int64_t> places;  // of each position in the order of the first round's buckets
    for (int64_t bh = 0; bh < BH; ++bh)
      for (int64_t i = 0; i < N; ++i) {
        const auto hash = [&](int64_t n) {
          return hashes[static_cast<size_t>(bh * rounds * N + n)];
        };
        int64_t place = leaks ? 0 : 100000 * hash(i);
        for (int64_t j = 0; j < N; ++j)
          place += (leaks && hash(j) < hash(i)) || (hash(j) == hash(i) && j < i);
        places.push_back(place);
      }
    const auto place = [&](int64_t bh, int64_t n) {
      return places[static_cast<size_t>(bh * N + n)] / kChunk;
    };
    return naive::softmax_attention(matmul(in.q, unit_rows(in.q, 1), false, true), in.v, mask,
                                    [&](int64_t bh, int64_t i, int64_t j) {
                                      const int64_t chunks = place(bh, i) - place(bh, j);
                                      return i == j || chunks == 0 || chunks == 1;
                                    });
  }
};

TEST(Sabotage, ChunksOfHashedPositions) {
  AttentionOptions options;
  options.name = "lsh";
  options.settings = {{"rounds", int64_t{1}}, {"buckets", int64_t{6}}, {"window", int64_t{20}}};
  sabotage::expect_caught<ChunksOfSortedPositions<true>, ChunksOfSortedPositions<false>>(
      "causality: bits", options);
}

}  // namespace
}  // namespace linea
