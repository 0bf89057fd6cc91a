// Softmax attention with a window: the keys of each position, in both passes and when sampling.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "autograd/softmax_attention.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/same_bits.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> softmax(int64_t window, const Sizes& sizes, DType dtype) {
  AttentionOptions options =
      options_of("softmax", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings["window"] = window;
  return make_attention(options);
}

// Whether position i sees key j.
bool in_window(int64_t i, int64_t j, int64_t window, bool causal) {
  return std::abs(i - j) < window && (!causal || j <= i);
}

TEST(SoftmaxWindow, OfOneCopiesValues) {
  const Sizes sizes{2, 3, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f32);
  for (const bool causal : {true, false}) {
    const Outcome found = run(*softmax(1, sizes, DType::f32), &Attention::forward, x, {causal, {}});
    EXPECT_EQ(different_bits(found.y, x.v, anywhere), 0);
    EXPECT_EQ(different_bits(found.dv, x.dy, anywhere), 0);
    EXPECT_LE(largest(found.dq, anywhere), 1e-5);
    EXPECT_LE(largest(found.dk, anywhere), 1e-5);
  }
}

TEST(SoftmaxWindow, OfAllPositionsHasTheBitsOfNone) {
  const Tensor valid = Tensor::from(std::vector<int32_t>{197, 70}, {2});
  const Sizes sizes{2, 3, 197, 5, 7};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Inputs x = draw(sizes, dtype);
    for (const bool causal : {true, false})
      for (const Tensor& keys : {Tensor(), valid}) {
        const AttentionMask mask{causal, keys};
        const Outcome none = run(*softmax(0, sizes, dtype), &Attention::forward, x, mask);
        for (const int64_t window : {197, 198, 2147483647}) {
          SCOPED_TRACE(window);
          const auto attention = softmax(window, sizes, dtype);
          expect_same_bits(run(*attention, &Attention::forward, x, mask), none);
        }
        EXPECT_GT(
            relative_error(run(*softmax(196, sizes, dtype), &Attention::forward, x, {causal, {}}).y,
                           run(*softmax(0, sizes, dtype), &Attention::forward, x, {causal, {}}).y),
            0);
      }
  }
}

// Windows and lengths around the kernel's bands of 8, vectors of 16, blocks of 64 queries and 128
// keys.
TEST(SoftmaxWindow, IsItsDefinitionAtEveryLength) {
  for (const int64_t length : {1, 2, 63, 64, 65, 129, 200, 321}) {
    const Sizes sizes{2, 1, length, 3, 4};
    const Inputs x = draw(sizes, DType::f64);
    const Tensor valid = Tensor::from(
        std::vector<int32_t>{static_cast<int32_t>(length), static_cast<int32_t>(length / 3)}, {2});
    for (const int64_t window : {1, 2, 7, 8, 9, 16, 17, 64, 65, 127, 128, 129})
      for (const bool causal : {true, false})
        for (const Tensor& keys : {Tensor(), valid}) {
          // A query without keys is 0 / 0 in the definition.
          if (keys.defined() && length / 3 + window <= length) continue;
          const auto attention = softmax(window, sizes, DType::f64);
          const Outcome found = run(*attention, &Attention::forward, x, {causal, keys}),
                        expected = run(*attention, &Attention::quadratic, x, {causal, keys});
          EXPECT_LE(relative_error(found.y, expected.y), 1e-11)
              << length << " positions, window " << window << (causal ? ", causal" : "");
          EXPECT_LE(gradient_error(found, expected), 1e-10)
              << length << " positions, window " << window << (causal ? ", causal" : "");
        }
  }
}

// Padding that leaves rows without any key: they are 0 and have no gradient.
TEST(SoftmaxWindow, RowsBeyondTheWindowOfTheLastKeyAreZero) {
  const Sizes sizes{1, 1, 300, 4, 4};
  const Inputs x = draw(sizes, DType::f64);
  const Tensor valid = Tensor::from(std::vector<int32_t>{100}, {1});
  for (const bool causal : {true, false}) {
    const Outcome found =
        run(*softmax(20, sizes, DType::f64), &Attention::forward, x, {causal, valid});
    const auto beyond = [](int64_t, int64_t n) { return n >= 119; };
    const auto not_beyond = [](int64_t, int64_t n) { return n == 118; };
    EXPECT_EQ(largest(found.y, beyond), 0);
    EXPECT_EQ(largest(found.dq, beyond), 0);
    EXPECT_GT(largest(found.y, not_beyond), 0);
    EXPECT_EQ(largest(found.dk, [](int64_t, int64_t n) { return n >= 100; }), 0);
  }
}

// A key and its value change the rows that see it, the gradient of a row changes those of its keys,
// and no bit of anything else.
TEST(SoftmaxWindow, NothingOutsideHasInfluence) {
  constexpr int64_t kWindow = 37;
  const Sizes sizes{1, 2, 260, 5, 7};
  const Inputs x = draw(sizes, DType::f32), other = draw(sizes, DType::f32, 3.0, 77);
  const auto attention = softmax(kWindow, sizes, DType::f32);
  for (const bool causal : {true, false}) {
    const Outcome before = run(*attention, &Attention::forward, x, {causal, {}});
    for (const int64_t changed : {0, 5, 64, 127, 130, 223, 259}) {
      const auto here = [&](int64_t, int64_t n) { return n == changed; };
      Inputs y = x;
      y.k = blend(x.k, other.k, here);
      y.v = blend(x.v, other.v, here);
      const Outcome keys = run(*attention, &Attention::forward, y, {causal, {}});
      const Outcome row = run(*attention, &Attention::forward,
                              x.with_dy(blend(x.dy, other.dy, here)), {causal, {}});
      const auto sees_it = [&](int64_t, int64_t i) {
        return in_window(i, changed, kWindow, causal);
      };
      const auto is_seen = [&](int64_t, int64_t j) {
        return in_window(changed, j, kWindow, causal);
      };
      const auto rows = static_cast<double>(sizes.heads * sizes.value_size);
      int64_t count = 0;
      for (int64_t i = 0; i < sizes.length; ++i) {
        const auto at_i = [i](int64_t, int64_t n) { return n == i; };
        EXPECT_EQ(different_bits(keys.y, before.y, at_i) > rows / 2, sees_it(0, i)) << i;
        EXPECT_EQ(different_bits(row.dv, before.dv, at_i) > rows / 2, is_seen(0, i)) << i;
        count += sees_it(0, i);
      }
      const auto not_seeing = [&](int64_t b, int64_t i) { return !sees_it(b, i); };
      const auto not_seen = [&](int64_t b, int64_t j) { return !is_seen(b, j); };
      EXPECT_EQ(different_bits(keys.y, before.y, not_seeing), 0) << changed;
      EXPECT_EQ(different_bits(keys.dq, before.dq, not_seeing), 0) << changed;
      EXPECT_EQ(different_bits(row.dk, before.dk, not_seen), 0) << changed;
      EXPECT_EQ(different_bits(row.dv, before.dv, not_seen), 0) << changed;
      EXPECT_GE(count, std::min<int64_t>({kWindow, changed + 1, sizes.length - changed}));
    }
  }
}

// Or NaN would spread.
TEST(SoftmaxWindow, KeysFarOutsideAreNotRead) {
  const Sizes sizes{1, 1, 1000, 4, 4};
  const auto attention = softmax(30, sizes, DType::f32);
  Inputs x = draw(sizes, DType::f32);
  const Tensor nan =
      Tensor::full(x.q.shape(), DType::f32, std::numeric_limits<double>::quiet_NaN());
  const auto far = [](int64_t, int64_t n) { return n < 300 || n >= 700; };
  for (Tensor* tensor : {&x.q, &x.k, &x.v, &x.dy}) *tensor = blend(*tensor, nan, far);
  for (const bool causal : {true, false}) {
    const Outcome found = run(*attention, &Attention::forward, x, {causal, {}});
    for (const Tensor& result : {found.y, found.dq, found.dk, found.dv}) {
      const std::vector<double> values = result.to_doubles();
      for (size_t i = 500 * 4; i < 501 * 4; ++i) EXPECT_TRUE(std::isfinite(values[i]));
    }
  }
}

// Eight times the length takes about eight times as long; 64 times, where blocks without a visible
// key are visited. The best of five, since other programs take time.
TEST(SoftmaxWindow, TimeIsLinear) {
  const Threads one(1);
  const auto seconds = [](int64_t length) {
    const Sizes sizes{1, 1, length, 4, 4};
    const Inputs x = draw(sizes, DType::f32);
    const auto attention = softmax(8, sizes, DType::f32);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run(*attention, &Attention::forward, x, {});
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count());
    }
    return best;
  };
  EXPECT_LE(seconds(32768), 20 * seconds(4096));
}

TEST(SoftmaxWindow, GradientsAreThoseOfDifferences) {
  for (const bool causal : {true, false})
    for (const int64_t window : {1, 3, 6}) {
      const auto leaf = [](uint32_t stream_id, int64_t width) {
        return Var(random_tensor({1, 2, 9, width}, stream_id), true);
      };
      const AttentionInputs in{leaf(1, 3), leaf(2, 3), leaf(3, 4), Var()};
      const GradcheckResult result = gradcheck_leaves(
          [&] {
            return softmax_attention(in, {causal, {}}, window);
          },
          {in.q, in.k, in.v});
      EXPECT_LE(result.error, 1e-7) << window;
    }
}

// Positions past three windows, in a state of the size that it has before the first.
TEST(SoftmaxWindow, SamplesWhatTheParallelFormGives) {
  for (const int64_t window : {1, 16, 30}) {
    const Sizes sizes{2, 3, 3 * window + 20, 5, 7};
    const Inputs x = draw(sizes, DType::f64);
    const auto attention = softmax(window, sizes, DType::f64);
    const Tensor expected = run(*attention, &Attention::forward, x, {}).y;
    const auto state = attention->start(sizes.batch, DType::f64);
    const size_t bytes = state->bytes();
    EXPECT_EQ(bytes, static_cast<size_t>(2 * 3 * window * (5 + 7)) * sizeof(double));
    for (int64_t n = 0; n < sizes.length; ++n) {
      const Tensor y = attention->step(*state, step_at(*attention, x, n));
      EXPECT_LE(relative_error(y, at_position(expected, n)), 1e-12) << window << " at " << n;
      EXPECT_EQ(state->bytes(), bytes);
    }
  }
}

// A window beyond the model's length takes no more slots than there are positions.
TEST(SoftmaxWindow, StateIsNoLargerThanTheModel) {
  AttentionOptions options = options_of("softmax", 2, 4, 4, DType::f32);
  options.settings["window"] = int64_t{2147483647};
  options.length = 50;
  EXPECT_EQ(make_attention(options)->start(1, DType::f32)->bytes(), 2u * 50 * 8 * sizeof(float));
}

}  // namespace
}  // namespace linea
