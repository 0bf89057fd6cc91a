#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

struct Setting {
  int64_t queries, keys, D, M;
  bool causal, padded, by_head;
  double stddev = 1.0;
  int64_t window = 0;    // 0: none
  int64_t sequence = 0;  // above 0: packed sequences of this length
  int64_t lost = 0;      // the first keys and values, NaN; not by_head
  int64_t gap = 0;       // numbers after each row

  KeyRanges ranges() const {
    const int64_t last = keys - queries;
    return {window == 0 ? -queries : last + 1 - window, causal        ? last + 1
                                                        : window == 0 ? keys
                                                                      : last + window};
  }
};

template <typename U>
HeadRows<U> rows(const Tensor& x, int64_t heads, bool by_head) {
  const int64_t N = x.size(1), width = x.size(2);
  return {x.data<std::remove_const_t<U>>(),
          N * heads * width,
          by_head ? width : N * width,
          by_head ? heads * width : width,
          heads,
          0};
}

// The first keys and the ends [P,queries] of a setting's packed sequences, in head p shifted by p.
std::vector<int32_t> bounds(const Setting& s, int64_t P, bool ends) {
  std::vector<int32_t> result;
  for (int64_t p = 0; p < P; ++p)
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t first = std::max<int64_t>((i + p) / s.sequence * s.sequence - p, 0);
      const int64_t end = s.causal ? i + 1 : (i + p) / s.sequence * s.sequence + s.sequence - p;
      result.push_back(static_cast<int32_t>(std::min(ends ? end : first, s.keys)));
    }
  return result;
}

// Moves the rows of x [P,N,width] apart, or back if `gap` is negative.
template <typename T>
Tensor spread(const Tensor& x, int64_t gap) {
  const std::vector<T> from = x.to_vector<T>();
  const int64_t count = x.size(0) * x.size(1), width = x.size(2), wide = width + gap;
  std::vector<T> to(static_cast<size_t>(count * wide));
  for (int64_t row = 0; row < count; ++row)
    std::copy_n(from.begin() + row * width, std::min(width, wide), to.begin() + row * wide);
  return Tensor::from(to, {x.size(0), x.size(1), wide});
}

// y, log sums, dq, dk, dv; what follows the keys that exist is NaN.
template <typename T>
std::vector<Tensor> run(const Setting& s) {
  using A = Accumulator<T>;
  const int64_t heads = 2, P = 4;
  const Tensor q = spread<T>(input<T>({P, s.queries, s.D}, 1, s.stddev), s.gap),
               dy = spread<T>(input<T>({P, s.queries, s.M}, 4), s.gap);
  Tensor k = input<T>({P, s.keys, s.D}, 2, s.stddev), v = input<T>({P, s.keys, s.M}, 3);
  const std::vector<int32_t> counts{static_cast<int32_t>(s.keys - s.keys / 3),
                                    static_cast<int32_t>(s.keys / 9)};
  if (s.padded)
    for (Tensor* x : {&k, &v}) {
      std::vector<T> values = x->template to_vector<T>();
      const int64_t width = x->size(2);
      for (int64_t batch = 0; batch < P / heads; ++batch)
        for (int64_t head = 0; head < heads; ++head)
          for (int64_t j = counts[batch]; j < s.keys; ++j)
            for (int64_t d = 0; d < width; ++d) {
              const int64_t place = s.by_head ? (batch * s.keys + j) * heads + head
                                              : (batch * heads + head) * s.keys + j;
              values[place * width + d] = T(NAN);
            }
      *x = Tensor::from(values, x->shape());
    }
  if (s.lost > 0)
    for (Tensor* x : {&k, &v}) {
      std::vector<T> values = x->template to_vector<T>();
      for (int64_t p = 0; p < P; ++p)
        std::fill_n(values.begin() + p * s.keys * x->size(2), s.lost * x->size(2), T(NAN));
      *x = Tensor::from(values, x->shape());
    }
  k = spread<T>(k, s.gap);
  v = spread<T>(v, s.gap);
  const Tensor valid = Tensor::from(counts, {P / heads});
  SoftmaxShape shape{{P, s.queries, s.keys, s.D, s.M, {}, 0.3}, s.ranges()};
  Tensor firsts, ends;
  if (s.sequence > 0) {
    firsts = Tensor::from(bounds(s, P, false), {P, s.queries});
    ends = Tensor::from(bounds(s, P, true), {P, s.queries});
    shape.ranges = {0, 0, firsts.data<int32_t>(), ends.data<int32_t>()};
  }
  if (s.padded) shape.valid = {valid.data<int32_t>(), heads, 0};
  // Kernels do not write to gaps.
  const auto like = [&](const Tensor& x) {
    if (s.gap == 0) return Tensor(x.shape(), x.dtype());
    return Tensor::from(std::vector<T>(static_cast<size_t>(x.numel())), x.shape());
  };
  const Tensor y = like(dy), sums({P, s.queries}, dtype_of(A{}));
  const Tensor dq = like(q), dk = like(k), dv = like(v);
  const auto given = [&](const Tensor& x) { return rows<const T>(x, heads, s.by_head); };
  const auto made = [&](const Tensor& x) { return rows<T>(x, heads, s.by_head); };
  table<T>().softmax_attention(context(), shape, {given(q), given(k), given(v)}, made(y),
                               sums.template data<A>());
  table<T>().softmax_attention_backward(context(), shape, {given(q), given(k), given(v)}, given(y),
                                        sums.template data<A>(), given(dy),
                                        {made(dq), made(dk), made(dv)});
  const auto dense = [&](const Tensor& x) { return spread<T>(x, -s.gap); };
  return {dense(y), sums, dense(dq), dense(dk), dense(dv)};
}

std::string describe(const Setting& s) {
  return std::to_string(s.queries) + " queries " + std::to_string(s.keys) + " keys D " +
         std::to_string(s.D) + " M " + std::to_string(s.M) + (s.causal ? " causal" : "") +
         (s.padded ? " padded" : "") + " window " + std::to_string(s.window) + " sequence " +
         std::to_string(s.sequence) + " gap " + std::to_string(s.gap);
}

void expect_alike(const Setting& s, const Bounds& bounds = {}) {
  SCOPED_TRACE(describe(s));
  expect_parity([&](auto t) { return run<decltype(t)>(s); }, bounds);
}

TEST(CudaSoftmaxAttention, MasksAndLayouts) {
  for (const bool causal : {false, true})
    for (const bool padded : {false, true})
      for (const bool by_head : {false, true})
        expect_alike({150, 150, 16, 9, causal, padded, by_head}, {1e-5, 1e-12, 2e-2});
}

TEST(CudaSoftmaxAttention, Sizes) {
  for (const bool causal : {false, true}) {
    expect_alike({1, 257, 37, 70, causal, false, true}, {1e-5, 1e-12, 2e-2});
    expect_alike({63, 65, 130, 3, causal, false, false}, {1e-5, 1e-12, 2e-2});
    expect_alike({65, 193, 5, 130, causal, true, true}, {1e-5, 1e-12, 2e-2});
    expect_alike({64, 64, 64, 64, causal, false, true}, {1e-5, 1e-12, 2e-2});
    expect_alike({2, 3, 1, 1, causal, false, true}, {1e-5, 1e-12, 2e-2});
  }
}

TEST(CudaSoftmaxAttention, Windows) {
  for (const int64_t window : {1, 2, 64, 65, 100})
    for (const bool causal : {false, true}) {
      expect_alike({200, 200, 8, 8, causal, false, true, 1.0, window}, {1e-5, 1e-12, 2e-2});
      expect_alike({65, 193, 5, 7, causal, true, false, 1.0, window}, {1e-5, 1e-12, 2e-2});
    }
}

TEST(CudaSoftmaxAttention, PackedSequences) {
  for (const int64_t sequence : {1, 40, 100})
    for (const bool causal : {false, true})
      expect_alike({260, 260, 8, 8, causal, causal, true, 1.0, 0, sequence}, {1e-5, 1e-12, 2e-2});
}

// Tiles outside of the window are not computed, or NaN would spread.
TEST(CudaSoftmaxAttention, AWindowReadsItsTiles) {
  const On device(kCuda);
  for (const bool causal : {false, true}) {
    Setting s{640, 640, 8, 8, causal, false, false, 1.0, 30};
    s.lost = 100;
    const std::vector<Tensor> results = run<float>(s);
    for (const size_t result : {0, 2, 3, 4}) {
      const std::vector<float> values = results[result].to_vector<float>();
      for (size_t i = 300 * 8; i < 640 * 8; ++i) ASSERT_TRUE(std::isfinite(values[i])) << i;
    }
  }
}

// The first queries see nothing: their rows are 0 and have no gradient.
TEST(CudaSoftmaxAttention, MoreQueriesThanKeys) {
  expect_alike({140, 70, 8, 8, true, false, true}, {1e-5, 1e-12, 2e-2});
}

// Scores of some thousands: one key has all the weight.
TEST(CudaSoftmaxAttention, LargeScores) {
  for (const bool causal : {false, true})
    expect_alike({100, 100, 16, 16, causal, true, true, 40.0}, {1e-3, 1e-10, 3e-2});
}

// ---- bf16 rows of 32, 64 and 128 numbers, which have kernels of their own (cuda/attend.h) ----

void expect_panels_alike(const Setting& s, double bound = 2e-2) {
  if (left_out()) return;
  SCOPED_TRACE(describe(s));
  const bool one_key = s.keys == 1 || s.window == 1 || s.sequence == 1;
  const auto body = [&](auto t) {
    std::vector<Tensor> results = run<decltype(t)>(s);
    if (!one_key) return results;
    // A single key has the weight 1 whatever its score: dq and dk are rounding errors.
    for (const size_t result : {2, 3})
      for (const double x : numbers(results[result])) EXPECT_LE(std::abs(x), 1e-4);
    return std::vector<Tensor>{results[0], results[1], results[4]};
  };
  expect_close<BFloat16, float>(body, bound);
}

TEST(CudaAttendPanels, EveryLength) {
  for (const int64_t N : {1, 63, 64, 65, 200})
    for (const int64_t D : {32, 64, 128})
      for (const bool causal : {false, true})
        if (!a_share() || N < 200 || D == 32)
          expect_panels_alike({N, N, D, D, causal, false, causal});
}

TEST(CudaAttendPanels, QueriesAndKeys) {
  for (const bool causal : {false, true})
    for (const bool padded : {false, true}) {
      expect_panels_alike({1, 257, 32, 32, causal, padded, true});
      expect_panels_alike({65, 193, 64, 64, causal, padded, false});
      expect_panels_alike({130, 31, 32, 32, causal, padded, true});  // some see nothing
      expect_panels_alike({300, 300, 32, 32, causal, padded, false});
    }
}

TEST(CudaAttendPanels, Windows) {
  for (const int64_t window : {1, 33, 64, 65, 100})
    for (const bool causal : {false, true}) {
      expect_panels_alike({300, 300, 32, 32, causal, false, true, 1.0, window});
      expect_panels_alike({65, 193, 32, 32, causal, true, false, 1.0, window});
    }
}

TEST(CudaAttendPanels, PackedSequences) {
  for (const int64_t sequence : {1, 40, 100})
    for (const bool causal : {false, true})
      expect_panels_alike({260, 260, 32, 32, causal, causal, true, 1.0, 0, sequence});
}

TEST(CudaAttendPanels, LargeScores) {
  for (const bool causal : {false, true})
    expect_panels_alike({100, 100, 64, 64, causal, true, true, 40.0}, 3e-2);
}

TEST(CudaAttendPanels, AWindowReadsItsTiles) {
  const On device(kCuda);
  for (const bool causal : {false, true}) {
    Setting s{640, 640, 32, 32, causal, false, false, 1.0, 30};
    s.lost = 100;
    const std::vector<Tensor> results = run<BFloat16>(s);
    for (const size_t result : {0, 2, 3, 4}) {
      const std::vector<double> values = numbers(results[result]);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_TRUE(i / 32 % 640 < 300 || std::isfinite(values[i])) << i;
    }
  }
}

// Rows that allow copies of 16 bytes get the same bits wherever they are; others have the kernels of
// all sizes, and get other bits.
TEST(CudaAttendPanels, RowsWithGaps) {
  const On device(kCuda);
  for (const int64_t D : {32, 64, 128})
    for (const bool causal : {false, true}) {
      if (left_out()) continue;
      Setting s{130, 130, D, D, causal, causal, true};
      const auto results = [&](int64_t gap) {
        s.gap = gap;
        std::vector<std::vector<double>> all;
        for (const Tensor& x : run<BFloat16>(s)) all.push_back(numbers(x));
        return all;
      };
      const auto dense = results(0), wide = results(8), general = results(3);
      EXPECT_NE(dense, general) << describe(s);
      for (size_t i = 0; i < dense.size(); ++i) {
        EXPECT_EQ(dense[i], wide[i]) << describe(s) << ", tensor " << i;
        EXPECT_LE(distance(dense[i], general[i]), 0.02) << describe(s) << ", tensor " << i;
      }
    }
}

TEST(CudaAttendPanels, TheSameBitsEachTime) {
  const On device(kCuda);
  const Setting s{300, 300, 64, 64, true, false, true};
  const std::vector<Tensor> once = run<BFloat16>(s), again = run<BFloat16>(s);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(numbers(once[i]), numbers(again[i])) << i;
}

}  // namespace
}  // namespace linea::cuda_tests
