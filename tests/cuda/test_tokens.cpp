#include <numeric>

#include "tensor/ops.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// Tokens below `count`; half of them are the first, so that some occur often and some never.
Tensor tokens_below(int64_t rows, int64_t count) {
  const RandomStream numbers{7, Purpose::test, 99, 0};
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r) {
    const uint32_t id = random_below(numbers, r, static_cast<uint32_t>(2 * count));
    ids.push_back(id < count ? static_cast<int32_t>(id) : 0);
  }
  return Tensor::from(ids, {rows});
}

// Tokens, and -1 where nothing is scored: every third row.
Tensor targets_below(int64_t rows, int64_t count) {
  std::vector<int32_t> targets = tokens_below(rows, count).to_vector<int32_t>();
  for (int64_t r = 0; r < rows; r += 3) targets[r] = -1;
  return Tensor::from(targets, {rows});
}

struct Rows {
  int64_t rows, tokens;
};
struct TokenSize {
  int64_t rows, tokens, columns;
};

TEST(CudaTokens, EmbeddingAndItsBackward) {
  for (const auto [R, V, C] :
       {TokenSize{1, 1, 1}, TokenSize{300, 11, 33}, TokenSize{5, 70, 300}, TokenSize{2000, 3, 40},
        TokenSize{0, 4, 5}, TokenSize{200, 300, 7}, TokenSize{1100, 700, 16}})
    expect_parity([R = R, V = V, C = C](auto t) {
      using T = decltype(t);
      const Tensor ids = tokens_below(R, V), weights = input<T>({V, C}, 1),
                   dy = input<T>({R, C}, 2);
      const Tensor y = unset<T>({R, C}), dweights = unset<T>({V, C});
      table<T>().embedding(context(), weights.data<T>(), ids.data<int32_t>(), y.data<T>(), R, C);
      table<T>().embedding_backward(context(), ids.data<int32_t>(), dy.data<T>(),
                                    dweights.data<T>(), R, V, C);
      return std::vector<Tensor>{y, dweights};
    });
}

TEST(CudaTokens, EmbeddingAtAPositionOfEachRow) {
  for (const auto [R, V, C] :
       {TokenSize{1, 1, 1}, TokenSize{300, 11, 33}, TokenSize{5, 70, 300}, TokenSize{0, 4, 5}})
    expect_parity([R = R, V = V, C = C](auto t) {
      using T = decltype(t);
      using A = Accumulator<T>;
      const Tensor ids = tokens_below(R, V), tokens = input<A>({V, C}, 1),
                   positions = input<A>({4, C}, 2);
      const Tensor place = tokens_below(R, 4), y = unset<T>({R, C});
      table<T>().embed_position(context(), tokens.data<A>(), ids.data<int32_t>(),
                                positions.data<A>(), place.data<int32_t>(), y.data<T>(), R, C);
      return std::vector<Tensor>{y};
    });
}

// Over whole sequences, and one position after the other, which changes what sampling remembers.
TEST(CudaTokens, RowsOfClasses) {
  for (const auto [B, N, V] : {TokenSize{1, 1, 5}, TokenSize{3, 200, 40}, TokenSize{7, 3, 300}})
    expect_parity(
        [B = B, N = N, V = V](auto t) {
          using T = decltype(t);
          const auto ids_below = [&](int64_t rows) { return tokens_below(rows, V); };
          const Tensor ids = ids_below(B * N), now = ids_below(B), positions = tokens_below(B, 2);
          const Tensor classes = unset<int32_t>({B, N}),
                       known = Tensor::from(std::vector<int32_t>(B, 9), {B});
          const auto at = [](const Tensor& x) { return x.template data<int32_t>(); };
          table<T>().class_index(context(), at(ids), nullptr, at(classes), B, N, 1, 3);
          table<T>().class_index(context(), at(now), at(positions), at(known), B, 1, 1, 3);
          return std::vector<Tensor>{classes, known};
        },
        {0, 0, 0});
}

// For more rows than a block has threads, and round the end of the token_buffer.
TEST(CudaTokens, SampledTokensAreStored) {
  for (const int64_t R : {1, 700})
    for (const Device& device : {Device{}, kCuda}) {
      const On on(device);
      const auto filled = [R](int32_t n) {
        return std::vector<int32_t>(static_cast<size_t>(R), n);
      };
      const ops::Sampled to{unset<int32_t>({R}), Tensor::from(filled(40), {R}),
                            Tensor::from(filled(5), {R}), Tensor::zeros({3, R}, DType::i32)};
      SamplingParams greedy;
      greedy.greedy = true;
      std::vector<std::vector<int32_t>> sampled;
      for (uint32_t n = 0; n < 4; ++n) {
        const Tensor logits = input<float>({R, 7}, n);
        sampled.push_back(ops::argmax(logits).to_vector<int32_t>());
        ops::sample(OutputKind::logits, logits, 7, greedy, {}, to);
        EXPECT_EQ(to.tokens.to_vector<int32_t>(), sampled.back());
      }
      EXPECT_EQ(to.positions.to_vector<int32_t>(), filled(44));
      EXPECT_EQ(to.count.to_vector<int32_t>(), filled(9));
      // the 6th, 7th and 8th of all went to rows 2, 0 and 1, the 9th to row 2 again
      EXPECT_EQ(to.token_buffer.rows(0, 1).to_vector<int32_t>(), sampled[1]);
      EXPECT_EQ(to.token_buffer.rows(1, 1).to_vector<int32_t>(), sampled[2]);
      EXPECT_EQ(to.token_buffer.rows(2, 1).to_vector<int32_t>(), sampled[3]);
    }
}

// Rows sorted by token are cut into pieces, each token's rows are added piece by piece.
std::vector<float> sums_by_token(const std::vector<int32_t>& ids, const float* dy, int64_t V,
                                 int64_t C) {
  const size_t R = ids.size();
  size_t piece = 32;
  while (4 * piece * piece < R) piece *= 2;
  std::vector<size_t> order(R);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ids[a] < ids[b]; });
  std::vector<float> sums(V * C, 0.0f);
  for (size_t first = 0, end; first < R; first = end) {
    const int32_t id = ids[order[first]];
    for (end = first; end < R && ids[order[end]] == id && (end == first || end % piece != 0);)
      ++end;
    for (int64_t c = 0; c < C; ++c) {
      float sum = 0;
      for (size_t i = first; i < end; ++i) sum += dy[order[i] * C + c];
      sums[id * C + c] += sum;
    }
  }
  return sums;
}

// One digit of the sort, two and three; one tile of rows and several; more tokens than rows; all
// rows of one token. Rows that allow loads of 16 bytes, and rows that do not.
TEST(CudaTokens, RowsOfATokenAreAddedInOrder) {
  const On device(kCuda);
  for (const auto [R, V] :
       {Rows{1, 1}, Rows{33, 2}, Rows{999, 256}, Rows{700, 257}, Rows{1025, 70000}, Rows{4100, 9}})
    for (const int64_t unaligned : {0, 1})
      for (const bool same : {false, true}) {
        const int64_t C = V > 1000 ? 4 : 12;
        const std::vector<int32_t> ids = same ? std::vector<int32_t>(R, static_cast<int32_t>(V - 1))
                                              : tokens_below(R, V).to_vector<int32_t>();
        const std::vector<float> values = waves<float>(R * C + unaligned);
        const Tensor dy = Tensor::from(values, {R * C + unaligned}),
                     dweights = unset<float>({V, C});
        table<float>().embedding_backward(context(), Tensor::from(ids, {R}).data<int32_t>(),
                                          dy.data<float>() + unaligned, dweights.data<float>(), R,
                                          V, C);
        EXPECT_TRUE(dweights.to_vector<float>() ==
                    sums_by_token(ids, values.data() + unaligned, V, C))
            << R << " rows of " << V << " tokens, " << unaligned << same;
      }
}

// Row 1 holds -infinity, row 2 a number that exp does not hold.
template <typename T>
Tensor logits(int64_t R, int64_t V) {
  std::vector<T> values = input<T>({R, V}, 1, 2.0).template to_vector<T>();
  if (R > 2 && V > 1) values[V] = T(-INFINITY);
  if (R > 2) values[2 * V] = T(512.0f);
  return Tensor::from(values, {R, V});
}

TEST(CudaTokens, CrossEntropyAndItsBackward) {
  for (const auto [R, V] : {Rows{1, 1}, Rows{37, 11}, Rows{300, 65}, Rows{5, 3000}, Rows{0, 7}})
    expect_parity([R = R, V = V](auto t) {
      using T = decltype(t);
      using A = Accumulator<T>;
      const Tensor x = logits<T>(R, V), targets = targets_below(R, V), losses = unset<A>({R});
      const Tensor log_sums = unset<A>({R}), mean = unset<A>({1}), scored = unset<A>({1}),
                   dx = unset<T>({R, V});
      const Tensor dmean = Tensor::full({1}, dtype_of(A{}), 1.5);
      const int32_t* aims = targets.data<int32_t>();
      table<T>().cross_entropy(context(), x.data<T>(), aims, losses.data<A>(), log_sums.data<A>(),
                               R, V);
      table<T>().mean_scored(context(), losses.data<A>(), aims, mean.data<A>(), scored.data<A>(),
                             R);
      table<T>().cross_entropy_backward(context(), x.data<T>(), aims, log_sums.data<A>(),
                                        scored.data<A>(), dmean.data<A>(), dx.data<T>(), R, V);
      return std::vector<Tensor>{losses, log_sums, mean, scored, dx};
    });
}

// The loss of a row that is not scored may be anything.
TEST(CudaTokens, TheMeanOfNoScoresIsZero) {
  expect_parity([](auto t) {
    using T = decltype(t);
    using A = Accumulator<T>;
    const Tensor losses = Tensor::full({700}, dtype_of(A{}), NAN), mean = unset<A>({1}),
                 scored = unset<A>({1});
    const Tensor targets = Tensor::from(std::vector<int32_t>(700, -1), {700});
    table<T>().mean_scored(context(), losses.data<A>(), targets.data<int32_t>(), mean.data<A>(),
                           scored.data<A>(), 700);
    return std::vector<Tensor>{mean, scored};
  });
}

// Ties, NaN at the front and within, rows of -infinity.
TEST(CudaTokens, TheFirstOfTheLargest) {
  for (const int64_t C : {1, 7, 33, 1500})
    expect_parity([C](auto t) {
      using T = decltype(t);
      const int64_t R = 9;
      std::vector<T> values;
      for (int64_t i = 0; i < R * C; ++i)
        values.push_back(T(static_cast<float>((i * 7 + i / C) % 5)));
      for (int64_t c = 0; c < C; ++c) {
        values[c] = T(-INFINITY);
        values[C + c] = T(NAN);
        values[2 * C + c] = T(c % 2 == 0 ? 1.0f : NAN);
        values[3 * C + c] = T(c == C - 1 ? 1.0f : -INFINITY);
        values[4 * C + c] = T(c == 0 ? NAN : 2.0f);
        values[5 * C + c] = T(-1.0f);
      }
      const Tensor x = Tensor::from(values, {R, C}), index = unset<int32_t>({R});
      table<T>().argmax(context(), x.template data<T>(), index.template data<int32_t>(), R, C);
      return std::vector<Tensor>{index};
    });
}

// Every way to draw, for more rows than blocks and for rows longer than a block has threads. Logits
// are multiples of a quarter: there are ties, which the first tokens win.
TEST(CudaTokens, SamplesTheSameTokens) {
  const SamplingParams drawings[] = {
      {1, 0, 1},   {0.7, 0, 1},    {1, 1, 1},    {1, 5, 1},    {1, 0, 0.5},         {2, 7, 0.8},
      {1, 0, 0.0}, {1, 1000, 0.9}, {0.01, 0, 1}, {1, 3, 1e-9}, {1, 0, 0.5, 3, true}};
  for (const SamplingParams& params : drawings)
    for (const auto [R, V] : {Rows{1, 1}, Rows{140, 29}, Rows{3, 256}, Rows{1, 700}, Rows{0, 5}})
      expect_parity(
          [&, R = R, V = V](auto t) {
            using T = decltype(t);
            if (context().device.kind == DeviceKind::cuda)
              context().sizes.block = 16 * V * 99;  // a hundred rows at a time
            std::vector<T> values;
            for (const double x : numbers(input<float>({R, V}, 3, 1.5)))
              values.push_back(T(std::round(4 * x) / 4));
            const Tensor x = Tensor::from(values, {R, V});
            const Tensor index = unset<int32_t>({R}), count = tokens_below(R, 7);
            table<T>().sample(
                context(), OutputKind::logits, x.data<T>(), V, params, {5, Purpose::sample, 0, 17},
                {index.data<int32_t>(), nullptr, count.data<int32_t>(), nullptr, R, 0});
            return std::vector<Tensor>{index, count};
          },
          {0, 0, 0});
}

// Rows without a likeliest token give the first, and leave their neighbors alone.
TEST(CudaTokens, InvalidDistributions) {
  for (const double top_p : {1.0, 0.5})
    expect_parity(
        [top_p](auto t) {
          using T = decltype(t);
          const int64_t V = 12;
          std::vector<T> values(4 * V, T(1.0f));
          for (int64_t v = 0; v < V; ++v) {
            values[v] = T(-INFINITY);
            values[V + v] = T(NAN);
            values[2 * V + v] = T(v == 9 ? 1.0f : -INFINITY);
          }
          const Tensor x = Tensor::from(values, {4, V}), index = unset<int32_t>({4});
          table<T>().sample(context(), OutputKind::logits, x.template data<T>(), V, {1, 0, top_p},
                            {5, Purpose::sample, 0, 17},
                            {index.template data<int32_t>(), nullptr, nullptr, nullptr, 4, 0});
          return std::vector<Tensor>{index};
        },
        {0, 0, 0});
}

}  // namespace
}  // namespace linea::cuda_tests
