// Sorted blocks: limits, the weights S by loops, by hand and at their sums, noise, and what known implementations
// leak or leave out.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/key_ranges.h"
#include "autograd/ops.h"
#include "nn/attention/sorted_attention.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention/future.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/same_bits.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> sinkhorn(const Settings& settings, const Sizes& sizes,
                                    DType dtype = DType::f64) {
  AttentionOptions options =
      options_of("sinkhorn", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = settings;
  options.length = sizes.length;
  return make_attention(options);
}

BlockSorting sorting(int64_t block, int64_t iterations, bool causal) {
  return {.block = block, .iterations = iterations, .scale = 0.7, .causal = causal};
}

// S of one head by the formulas, [rows,columns], exp R as it is; q, k [L,D]. whole_columns: a causal S whose
// column sums are over all rows.
std::vector<double> sort_by_loops(const double* q, const double* k, int64_t L, int64_t D,
                                  const BlockSorting& of, bool whole_columns = false) {
  const int64_t b = of.block, rows = (L + b - 1) / b, columns = L / b;
  std::vector<double> s(static_cast<size_t>(rows * columns));
  const auto at = [&](int64_t m, int64_t n) -> double& {
    return s[static_cast<size_t>(m * columns + n)];
  };
  const auto takes = [&](int64_t m, int64_t n) { return !of.causal || n < m; };
  const auto mean = [D](const double* x, int64_t first, int64_t end) {
    std::vector<double> sum(static_cast<size_t>(D));
    for (int64_t i = first * D; i < end * D; ++i)
      sum[static_cast<size_t>(i % D)] += x[i] / static_cast<double>(end - first);
    return sum;
  };
  std::vector<std::vector<double>> keys;
  for (int64_t n = 0; n < columns; ++n) keys.push_back(mean(k, n * b, n * b + b));
  for (int64_t m = 0; m < rows; ++m) {
    const std::vector<double> query =
        of.causal ? mean(q, 0, m * b + 1) : mean(q, m * b, std::min(m * b + b, L));
    for (int64_t n = 0; n < columns; ++n) {
      const std::vector<double>& key = keys[static_cast<size_t>(n)];
      const double r = of.scale * std::inner_product(key.begin(), key.end(), query.begin(), 0.0);
      at(m, n) = takes(m, n) ? std::exp(std::clamp(r, -600.0, 600.0)) : 0;  // a finite number
    }
  }
  for (int64_t t = 0; t < std::max<int64_t>(of.iterations, 1); ++t) {
    const std::vector<double> before = s;
    for (int64_t m = 0; m < rows; ++m) {
      double total = 0;
      for (int64_t n = 0; n < columns; ++n) {
        double sum = 0;
        for (int64_t other = 0; other < rows; ++other)
          if (!of.causal || whole_columns || other <= m)
            sum += before[static_cast<size_t>(other * columns + n)];
        if (of.iterations > 0 && takes(m, n)) at(m, n) /= sum;
        total += at(m, n);
      }
      for (int64_t n = 0; n < columns && total > 0; ++n) at(m, n) /= total;
    }
  }
  return s;
}

Tensor sorted(const Inputs& x, const BlockSorting& of, const Tensor& valid = {}) {
  return sort_blocks(x.q, x.k, of, valid);
}

// As many valid positions as a block has, of more.
TEST(Sinkhorn, OfOneBlockIsSoftmax) {
  const Sizes sizes{2, 2, 100, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  const Tensor valid = Tensor::from(std::vector<int32_t>{40, 17}, {2});
  for (const bool causal : {true, false})
    for (const int64_t block : {40, 100, 1000}) {
      const Outcome expected = run(*softmax, &Attention::quadratic, x, {causal, valid}),
                    found = run(*sinkhorn({{"block", block}}, sizes), &Attention::forward, x,
                                {causal, valid});
      for (const size_t b : {0, 1}) {
        const auto existing = [b](const Tensor& t) {
          return pick(t, {b}, {0, 1}, b == 0 ? 40 : 17);
        };
        EXPECT_LE(relative_error(existing(found.y), existing(expected.y)), 1e-12) << block;
      }
    }
  for (const bool causal : {true, false}) {
    const Outcome expected = run(*softmax, &Attention::quadratic, x, {causal, {}}),
                  found = run(*sinkhorn({{"block", int64_t{100}}}, sizes), &Attention::forward, x,
                              {causal, {}});
    EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
    EXPECT_LE(gradient_error(found, expected), 1e-12);
  }
}

// More blocks than a product packs at a time, in one segment and in several.
TEST(Sinkhorn, OfManyBlocksIsTheQuadraticForm) {
  const Sizes sizes{2, 2, 260, 5, 3};
  const Inputs x = draw(sizes, DType::f64);
  const Tensor valid = Tensor::from(std::vector<int32_t>{260, 230}, {2});
  for (const bool causal : {true, false})
    for (const int64_t segment : {0, 90}) {
      AttentionOptions options = options_of("sinkhorn", 2, 5, 3, DType::f64);
      options.settings = {{"block", int64_t{3}}};
      options.length = 260;
      options.segment = segment;
      const auto attention = make_attention(options);
      const Outcome expected = run(*attention, &Attention::quadratic, x, {causal, valid}),
                    found = run(*attention, &Attention::forward, x, {causal, valid});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-9) << causal << segment;
      EXPECT_LE(relative_error(found.dq, expected.dq), 1e-9) << causal << segment;
      EXPECT_LE(relative_error(found.dk, expected.dk), 1e-9) << causal << segment;
      EXPECT_LE(relative_error(found.dv, expected.dv), 1e-9) << causal << segment;
    }
}

TEST(Sinkhorn, SortsByTheFormulas) {
  const Sizes sizes{1, 2, 50, 5, 3};
  const Inputs x = draw(sizes, DType::f64, 2.0);
  for (const bool causal : {true, false})
    for (const int64_t iterations : {0, 1, 4}) {
      const BlockSorting of = sorting(6, iterations, causal);
      const std::vector<double> q = x.q.to_doubles(), k = x.k.to_doubles(),
                                found = sorted(x, of).to_doubles();
      for (size_t head = 0; head < 2; ++head) {
        const std::vector<double> expected =
            sort_by_loops(&q[head * 250], &k[head * 250], 50, 5, of);
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(found[head * expected.size() + i], expected[i], 1e-12)
              << causal << iterations << ", " << i;
      }
    }
}

// Blocks of one row, q and k of one number: R_10 = 0, and q^_2 = 1 is the mean of 3, -1 and 1, so that R_20 =
// ln 3 and R_21 = ln 2. Row 1 has one block. In row 2, block 0 is shared with row 1, 3 of 4, and block 1 is not.
TEST(Sinkhorn, ThreeBlocksByHand) {
  const auto column = [](const std::vector<double>& values) {
    return Tensor::from(values, {1, 1, 3, 1});
  };
  const Inputs x{column({3, -3, 3}), column({std::log(3.0), std::log(2.0), 5}), {}, {}, {}};
  BlockSorting of = sorting(1, 1, true);
  of.scale = 1;
  const std::vector<double> s = sorted(x, of).to_doubles();
  const std::vector<double> expected = {0, 0, 0, 1, 0, 0, 0.75 / 1.75, 1 / 1.75, 0};
  for (size_t i = 0; i < s.size(); ++i) EXPECT_NEAR(s[i], expected[i], 1e-15) << i;
}

TEST(Sinkhorn, RowsSumToOneAndColumnsAfterManyIterations) {
  const Sizes sizes{2, 2, 120, 5, 3};
  const Inputs x = draw(sizes, DType::f64);
  for (const bool causal : {true, false})
    for (const int64_t iterations : {0, 1, 50}) {
      const std::vector<double> s = sorted(x, sorting(10, iterations, causal)).to_doubles();
      std::vector<double> columns(4 * 12);
      for (size_t row = 0; row < 4 * 12; ++row) {
        double sum = 0;
        for (size_t n = 0; n < 12; ++n) {
          sum += s[row * 12 + n];
          columns[row / 12 * 12 + n] += s[row * 12 + n];
        }
        EXPECT_NEAR(sum, causal && row % 12 == 0 ? 0 : 1, 1e-12) << row;
      }
      for (const double sum : columns) {
        if (iterations == 50 && !causal) {
          EXPECT_NEAR(sum, 1, 1e-6);
        }
      }
    }
}

// Whatever follows: the rows of S for a prefix are the first rows, in bits; and so where the rest is padding.
TEST(Sinkhorn, SortsAPrefixAlike) {
  const Sizes sizes{1, 2, 200, 5, 3};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Inputs x = draw(sizes, dtype);
    const BlockSorting of = sorting(8, 5, true);
    const std::vector<double> all = sorted(x, of).to_doubles();
    for (const int32_t length : {9, 64, 65, 119}) {
      const Inputs some = x.map([&](const Tensor& t) { return pick(t, {0}, {0, 1}, length); });
      const std::vector<double> prefix = sorted(some, of).to_doubles(),
                                padded =
                                    sorted(x, of, Tensor::from(std::vector<int32_t>{length}, {1}))
                                        .to_doubles();
      const int64_t rows = (length + 7) / 8, columns = length / 8;
      for (int64_t i = 0; i < 2 * rows * columns; ++i) {
        const auto whole = static_cast<size_t>(
            (i / (rows * columns) * 25 + i / columns % rows) * 25 + i % columns);
        EXPECT_EQ(prefix[static_cast<size_t>(i)], all[whole]) << length;
        EXPECT_EQ(padded[whole], all[whole]) << length;
      }
    }
  }
}

TEST(Sinkhorn, GradientsPassThroughAllIterations) {
  const Threads one(1);  // less work than waking a thread
  const Sizes sizes{2, 1, 15, 2, 3};
  const Inputs x = draw(sizes, DType::f64);
  const Tensor valid = Tensor::from(std::vector<int32_t>{15, 10}, {2});
  for (const bool causal : {true, false})
    for (const int64_t iterations : {0, 1, 5}) {
      const Var q(x.q, true), k(x.k, true);
      BlockSorting of = sorting(3, iterations, causal);
      of.scale = 3;
      of.noise = 0.5;
      const auto loss = [&] {
        const Var s = Var::from_op("sort_blocks", sort_blocks(q.value(), k.value(), of, valid),
                                   {q, k}, [&](const Tensor& ds) {
                                     const Gradients all = {Tensor::zeros(x.q.shape(), DType::f64),
                                                            Tensor::zeros(x.k.shape(), DType::f64)};
                                     sort_blocks_backward(q.value(), k.value(), of, valid, ds, 0, 2,
                                                          all[0].value, all[1].value);
                                     return all;
                                   });
        const int64_t size = s.value().numel();
        const Var weights(random_tensor({size, 1}, 5, 1.0, 0, DType::f64));
        return reshape(matmul(reshape(s, {1, size}), weights), {1});
      };
      EXPECT_LE(gradcheck_leaves(loss, {q, k}).error, 1e-7) << causal << iterations;
    }
}

TEST(Sinkhorn, RowsDoNotDependOnTheFuture) {
  expect_no_future(*sinkhorn({{"block", int64_t{12}}}, {1, 2, 260, 5, 4}, DType::f32), 260);
}

TEST(Sinkhorn, HasTheSameBitsWithAnyThreads) {
  const Sizes sizes{2, 3, 200, 8, 4};
  const Inputs x = draw(sizes, DType::f32);
  const auto attention = sinkhorn({{"block", int64_t{16}}}, sizes, DType::f32);
  const auto with = [&](int threads) {
    const Threads own(threads);
    return run(*attention, &Attention::forward, x, {});
  };
  const Outcome expected = with(1);
  for (const int threads : {2, 3}) expect_same_bits(with(threads), expected);
}

// Sampled keys of blocks are those of training.
TEST(Sinkhorn, StepsSortTheSameBlocks) {
  const Sizes sizes{2, 2, 90, 5, 4};
  const Inputs x = draw(sizes, DType::f64);
  const BlockSorting of = sorting(8, 5, true);
  const std::vector<double> all = sorted(x, of).to_doubles();
  SortedBlocks blocks(of, 4, 5);
  for (int64_t n = 0; n < 90; ++n) {
    const Tensor row = blocks.add(at_position(x.q, n), at_position(x.k, n));
    ASSERT_EQ(row.defined(), n > 0 && n % 8 == 0) << n;
    if (!row.defined()) continue;
    for (int64_t bh = 0; bh < 4; ++bh)
      for (int64_t from = 0; from < n / 8; ++from)
        EXPECT_EQ(row.to_doubles()[static_cast<size_t>(bh * (n / 8) + from)],
                  all[static_cast<size_t>((bh * 12 + n / 8) * 11 + from)]);
  }
}

TEST(Sinkhorn, HasNoiseInTrainingAlone) {
  const Sizes sizes{2, 2, 60, 5, 4};
  const Inputs x = draw(sizes, DType::f32);
  const auto noisy = sinkhorn({{"block", int64_t{8}}, {"sort_noise", 1.0}}, sizes, DType::f32);
  const auto y = [&](const Attention& of) { return run(of, &Attention::forward, x, {}).y; };
  const auto differ = [](const Tensor& a, const Tensor& b) {
    return different_bits(a, b, anywhere) > 0;
  };
  const Tensor without = y(*sinkhorn({{"block", int64_t{8}}}, sizes, DType::f32));
  EXPECT_FALSE(differ(y(*noisy), without));
  noisy->before_step(3, 10);
  const Tensor third = y(*noisy);
  EXPECT_TRUE(differ(third, without));
  EXPECT_FALSE(differ(y(*noisy), third));
  BlockSorting of = sorting(8, 5, true);
  of.scale = 1 / (0.75 * std::sqrt(5.0));
  of.noise = 1 / 0.75;
  of.stream = {AttentionOptions{}.seed, Purpose::sorting, 0, 3};  // no other attention draws them
  EXPECT_FALSE(
      differ(sorted_attention({Var(x.q), Var(x.k), Var(x.v), Var()}, of, {}, 0).value(), third));
  noisy->after_step();
  EXPECT_FALSE(differ(y(*noisy), without));
  noisy->before_step(4, 10);
  EXPECT_TRUE(differ(y(*noisy), third));
  noisy->skip_step();
  EXPECT_FALSE(differ(y(*noisy), without));
}

// With S of loops, whose causal column sums are over all rows where `leaks`.
template <bool leaks, int64_t iterations = 5>
class SortsByLoops final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), D = in.q.size(3), b = 16,
                  rows = (N + b - 1) / b, columns_of = N / b;
    if (N <= b || mask.valid.defined()) return right_->forward(in, mask);
    const BlockSorting of{b, iterations, 1 / (0.75 * std::sqrt(static_cast<double>(D))),
                          mask.causal};
    const std::vector<double> q = in.q.value().to_doubles(), k = in.k.value().to_doubles();
    std::vector<double> all;
    for (int64_t bh = 0; bh < B * H; ++bh) {
      const auto first = static_cast<size_t>(bh * N * D);
      const std::vector<double> one = sort_by_loops(&q[first], &k[first], N, D, of, leaks);
      all.insert(all.end(), one.begin(), one.end());
    }
    const Var s(Tensor::from(all, {B, H, rows, columns_of}, in.q.dtype()));
    const auto with_sorted = [&](const Var& x) {
      const int64_t W = x.size(3);
      const Var whole = reshape(columns(reshape(x, {B * H, N * W}), 0, columns_of * b * W),
                                {B, H, columns_of, b * W});
      return join_rows({x, reshape(matmul(s, whole), {B, H, rows * b, W})});
    };
    return sparse_attention({in.q, with_sorted(in.k), with_sorted(in.v), Var()}, {mask.causal, {}},
                            sets_.of(N, mask));
  }

 private:
  KeyRangeSets sets_{[](int64_t N) { return N + (N + 15) / 16 * 16; },
                     [](const SetSize& size, int64_t i, std::vector<KeyRange>& ranges) {
                       const int64_t N = size.positions, first = i / 16 * 16;
                       ranges.push_back({first, size.causal ? i + 1 : std::min(first + 16, N)});
                       if (!size.causal || i >= 16) ranges.push_back({N + first, N + first + 16});
                     }};
};

AttentionOptions of_blocks() {
  AttentionOptions options;
  options.name = "sinkhorn";
  options.settings = {{"block", int64_t{16}}};
  return options;
}

// What published causal forms do: the column sums of a row are over later rows, too.
TEST(Sabotage, ColumnSumsOfTheFuture) {
  sabotage::expect_caught<SortsByLoops<true>, SortsByLoops<false>>("causality: bits", of_blocks());
}

// What the code of Long Range Arena does: a softmax in place of the iterations.
TEST(Sabotage, BlocksSortedWithoutIterations) {
  sabotage::expect_caught<SortsByLoops<false, 0>>("outputs = quadratic", of_blocks());
}

}  // namespace
}  // namespace linea
