// Products of factors rounded to bf16, equal to the bit to fmaf loops in the order that each
// instruction set defines: every transpose, sizes around the edges of blocks and tiles, one and
// three threads. The kernel of AMX runs on every processor, with its instructions emulated.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tensor/bfloat16.h"
#include "tensor/context.h"
#include "tensor/cpu/packed/gemm.h"
#include "tensor/ops.h"
#include "tests/tensor/emulated_amx.h"

namespace linea::cpu {
namespace {

using Row = std::vector<float>;                            // of op(A), or a column of op(B)
using Sum = std::function<float(const Row&, const Row&)>;  // of a block of terms

uint32_t bits(float x) {
  uint32_t word = 0;
  std::memcpy(&word, &x, sizeof(word));
  return word;
}

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float unchanged(float x) { return x; }

// vdpbf16ps (Intel's manual: denormals are zero on input and output, MXCSR is not consulted): the
// odd element of a pair first. FMA alone keeps denormals.
template <float zero(float), bool odd_first = true>
float sum_in_pairs(const Row& a, const Row& b) {
  float sum = 0;
  for (size_t k = 0; k < a.size(); k += 2)
    for (const size_t i : {odd_first ? k + 1 : k, odd_first ? k : k + 1})
      sum = zero(std::fmaf(a[i], b[i], zero(sum)));
  return sum;
}

// tdpbf16ps (Intel's manual; denormals as above): 16 even and 16 odd products, each with a sum of
// its own; both sums are added, then added to the tile. `together`: even sums first, then odd ones.
template <float zero(float), bool together = true>
float sum_in_tiles(const Row& a, const Row& b) {
  float sum = 0;
  for (size_t first = 0; first < a.size(); first += kTerms) {
    float even = 0, odd = 0;
    for (size_t k = first; k < first + kTerms; k += 2) {
      even = zero(std::fmaf(a[k], b[k], even));
      odd = zero(std::fmaf(a[k + 1], b[k + 1], odd));
    }
    sum = together ? zero(sum + zero(even + odd)) : zero(zero(sum + even) + odd);
  }
  return sum;
}

// As sum_in_tiles, but both sums continue from one 32 terms to the next.
float sum_of_two(const Row& a, const Row& b) {
  float even = 0, odd = 0;
  for (size_t k = 0; k < a.size(); k += 2) {
    even = flushed(std::fmaf(a[k], b[k], even));
    odd = flushed(std::fmaf(a[k + 1], b[k + 1], odd));
  }
  return even + odd;
}

// x + y, or the exact x alone, as a float: an inexact one is the neighbor whose last bit is odd.
// Denormals are 0 where `flush`.
template <bool flush>
float odd(double x, double y = 0) {
  const double sum = x + y, rest_of_y = sum - x, error = (x - (sum - rest_of_y)) + (y - rest_of_y);
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  if (flush && std::fabs(sum) < 0x1p-126) return std::copysign(0.0f, static_cast<float>(sum));
  if (std::fabs(sum) >= 0x1p128) return std::copysign(INFINITY, static_cast<float>(sum));
  const auto nearest = static_cast<float>(sum);
  const double off = (sum - static_cast<double>(nearest)) + error;
  if (off == 0 || (bits(nearest) & 1U) != 0) return nearest;
  return std::nextafterf(nearest, off > 0 ? INFINITY : -INFINITY);
}

// bfmmla (Arm's manual, BFDotAdd with FPCR.EBF = 0): two products, their sum, and the sum with what
// was before are rounded to odd one by one, and FPCR.FZ is not consulted.
template <bool flush, bool pairs = true>
float sum_of_odd(const Row& a, const Row& b) {
  const auto input = [](float x) { return flush ? flushed(x) : x; };
  const auto product = [&](size_t k) {
    return odd<flush>(static_cast<double>(input(a[k])) * static_cast<double>(input(b[k])));
  };
  float sum = 0;
  for (size_t k = 0; k < a.size(); k += 2)
    sum = pairs ? odd<flush>(sum, odd<flush>(product(k), product(k + 1)))
                : odd<flush>(odd<flush>(sum, product(k)), product(k + 1));
  return sum;
}

bool is_amx(const PackedKernel& kernel) {
  return &kernel == bf16_amx() || &kernel == emulated_amx();
}
bool is_arm(const PackedKernel& kernel) { return &kernel == bf16_bfmmla(); }
bool flushes(const PackedKernel& kernel) { return &kernel != bf16_fma(); }
Sum sum_of(const PackedKernel& kernel) {
  if (is_arm(kernel)) return sum_of_odd<true>;
  if (is_amx(kernel)) return sum_in_tiles<flushed>;
  return flushes(kernel) ? sum_in_pairs<flushed> : sum_in_pairs<unchanged>;
}
// With denormals where the kernel has none, or without.
Sum other_denormals(const PackedKernel& kernel) {
  if (is_arm(kernel)) return sum_of_odd<false>;
  if (is_amx(kernel)) return sum_in_tiles<unchanged>;
  return flushes(kernel) ? sum_in_pairs<unchanged> : sum_in_pairs<flushed>;
}
std::vector<Sum> other_orders(const PackedKernel& kernel) {
  if (is_arm(kernel)) return {sum_in_pairs<flushed>, sum_of_odd<true, false>};
  if (!is_amx(kernel)) return {sum_in_pairs<flushed, false>};
  return {sum_in_pairs<flushed>, sum_in_pairs<flushed, false>, sum_in_tiles<flushed, false>,
          sum_of_two};
}

// Rounded values, padded with zeros to a multiple of kTerms.
using Matrix = std::vector<Row>;
Matrix random_rows(int64_t count, int64_t inner, uint32_t stream_id, float scale) {
  Matrix rows(static_cast<size_t>(count), Row(static_cast<size_t>(inner)));
  uint64_t index = 0;
  for (Row& row : rows)
    for (float& x : row)
      x = scale * static_cast<float>(random_normal({1, Purpose::test, stream_id, 0}, index++));
  return rows;
}
Row rounded(const Row& row, const PackedKernel& kernel) {
  Row result;
  for (const float x : row) {
    const float y = flushes(kernel) && !is_arm(kernel) ? flushed(x) : x;
    result.push_back(BFloat16(y));
  }
  while (result.size() % kTerms != 0) result.push_back(0);
  return result;
}

// A matrix with the rows, or with these as columns; `lead` numbers from one row to the next.
std::vector<float> stored(const Matrix& rows, bool turned, int64_t lead) {
  const size_t inner = rows.front().size();
  std::vector<float> all((turned ? inner : rows.size()) * static_cast<size_t>(lead), NAN);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < inner; ++k)
      all[turned ? k * static_cast<size_t>(lead) + i : i * static_cast<size_t>(lead) + k] =
          rows[i][k];
  return all;
}

// Blocks of kBf16Block terms in order, to `before` where that is given.
float whole_sum(const Row& a, const Row& b, const Sum& sum, const float* before) {
  float total = before == nullptr ? 0 : *before;
  for (size_t first = 0; first < a.size(); first += kBf16Block) {
    const auto begin = static_cast<std::ptrdiff_t>(first),
               end = static_cast<std::ptrdiff_t>(std::min<size_t>(a.size(), first + kBf16Block));
    const float part =
        sum({a.begin() + begin, a.begin() + end}, {b.begin() + begin, b.begin() + end});
    total = first == 0 && before == nullptr ? part : total + part;
  }
  return total;
}

struct Problem {
  int64_t rows, cols, inner;
  float scale = 1;
  int64_t gap = 0;  // of rows of A and C
};

// The number of elements that differ from the sums in the order of `sum`.
int64_t differences(const PackedKernel& kernel, const Problem& problem, const Sum& sum) {
  const Matrix a = random_rows(problem.rows, problem.inner, 1, problem.scale),
               b = random_rows(problem.cols, problem.inner, 2, 1);
  const std::vector<float> before(static_cast<size_t>(problem.rows * (problem.cols + problem.gap)),
                                  0.1f);
  Matrix rounded_b;
  for (const Row& row : b) rounded_b.push_back(rounded(row, kernel));
  std::vector<float> plain = before, added = before;
  for (int64_t i = 0; i < problem.rows; ++i) {
    const Row row = rounded(a[static_cast<size_t>(i)], kernel);
    for (int64_t j = 0; j < problem.cols; ++j) {
      const auto at = static_cast<size_t>(i * (problem.cols + problem.gap) + j);
      plain[at] = whole_sum(row, rounded_b[static_cast<size_t>(j)], sum, nullptr);
      added[at] = whole_sum(row, rounded_b[static_cast<size_t>(j)], sum, &before[at]);
    }
  }
  int64_t count = 0;
  Context ctx = context();
  for (const int threads : {1, 3})
    for (int form = 0; form < 8; ++form) {
      GemmShape shape;
      shape.transpose_a = (form & 1) != 0;
      shape.transpose_b = (form & 2) != 0;
      shape.beta = (form & 4) != 0 ? 1 : 0;
      shape.rows = problem.rows, shape.cols = problem.cols, shape.inner = problem.inner;
      shape.lead_c = problem.gap > 0 ? problem.cols + problem.gap : 0;
      shape.lead_a = problem.gap > 0 && !shape.transpose_a ? problem.inner + problem.gap : 0;
      const int64_t dense_a = shape.transpose_a ? shape.rows : shape.inner;
      const auto first = stored(a, shape.transpose_a, std::max(shape.lead_a, dense_a)),
                 second = stored(b, !shape.transpose_b,
                                 shape.transpose_b ? problem.inner : problem.cols);
      std::vector<float> c = before;
      ctx.threads = threads;
      packed_gemm(ctx, kernel, shape, first.data(), second.data(), c.data());
      const std::vector<float>& expected = shape.beta == 0 ? plain : added;
      for (size_t i = 0; i < c.size(); ++i) count += bits(c[i]) != bits(expected[i]);
    }
  return count;
}

class Bf16Gemm : public testing::TestWithParam<const PackedKernel*> {};

TEST_P(Bf16Gemm, EqualsItsSumsToTheBit) {
  const Problem problems[] = {{1, 1, 1},    {1, 17, 2},   {5, 15, 31},  {6, 16, 32},   {7, 33, 33},
                              {16, 64, 64}, {17, 65, 40}, {31, 31, 95}, {33, 130, 3},  {97, 48, 66},
                              {2, 3, 1024}, {3, 2, 1025}, {4, 5, 2100}, {200, 130, 70}};
  for (const Problem& problem : problems)
    EXPECT_EQ(differences(*GetParam(), problem, sum_of(*GetParam())), 0)
        << problem.rows << " x " << problem.cols << " x " << problem.inner;
}

TEST_P(Bf16Gemm, LeavesTheGapsBetweenRows) {
  EXPECT_EQ(differences(*GetParam(), {19, 21, 37, 1, 5}, sum_of(*GetParam())), 0);
  EXPECT_EQ(differences(*GetParam(), {97, 160, 160, 1, 3}, sum_of(*GetParam())), 0);
}

// Denormal factors, products and sums; FMA keeps those that BFloat16 keeps.
TEST_P(Bf16Gemm, TreatsDenormalsAsItSays) {
  for (const float scale : {1e-36f, 1e-37f, 1e-38f, 1e-39f}) {
    EXPECT_EQ(differences(*GetParam(), {9, 20, 70, scale}, sum_of(*GetParam())), 0) << scale;
    if (scale < 1e-38f) continue;  // the factors alone are denormal
    EXPECT_NE(differences(*GetParam(), {9, 20, 70, scale}, other_denormals(*GetParam())), 0)
        << scale;
  }
}

TEST_P(Bf16Gemm, AnotherOrderOfSumsIsDetected) {
  for (const Sum& other : other_orders(*GetParam()))
    EXPECT_GT(differences(*GetParam(), {20, 20, 128}, other), 100);
}

TEST_P(Bf16Gemm, AnEmptySumIsZero) {
  float c[6] = {1, 2, 3, 4, 5, 6};
  GemmShape shape;
  shape.rows = 2, shape.cols = 3;
  shape.beta = 1;
  packed_gemm(context(), *GetParam(), shape, nullptr, nullptr, c);
  EXPECT_EQ(c[5], 6);
  shape.beta = 0;
  packed_gemm(context(), *GetParam(), shape, nullptr, nullptr, c);
  for (const float x : c) EXPECT_EQ(x, 0);
}

TEST_P(Bf16Gemm, NonfiniteFactorsStayInTheirRowsAndColumns) {
  GemmShape shape;
  shape.rows = 7, shape.cols = 5, shape.inner = 40;
  std::vector<float> a(280, 1), b(200, 1), c(35);
  a[40 + 3] = NAN;
  a[80 + 3] = INFINITY;
  b[3 * 5 + 2] = std::numeric_limits<float>::max();  // rounds to infinity
  packed_gemm(context(), *GetParam(), shape, a.data(), b.data(), c.data());
  for (size_t i = 0; i < 35; ++i) {
    if (i / 5 == 1) {
      EXPECT_TRUE(std::isnan(c[i])) << i;
    } else if (i / 5 == 2 || i % 5 == 2) {
      EXPECT_EQ(c[i], INFINITY) << i;
    } else {
      EXPECT_EQ(c[i], 40) << i;
    }
  }
}

std::vector<const PackedKernel*> tested_kernels() {
  std::vector<const PackedKernel*> all = bf16_kernels();
  if (emulated_amx() != nullptr) all.push_back(emulated_amx());
  return all;
}

std::string name_of_kernel(const testing::TestParamInfo<const PackedKernel*>& info) {
  if (info.param == emulated_amx()) return "EmulatedAMX";
  std::string name = info.param->isa;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return name;
}
INSTANTIATE_TEST_SUITE_P(Kernels, Bf16Gemm, testing::ValuesIn(tested_kernels()), name_of_kernel);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bf16Gemm);

Tensor random(const Shape& shape, uint32_t stream_id) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(static_cast<float>(
        random_normal({2, Purpose::test, stream_id, 0}, static_cast<uint64_t>(i))));
  return Tensor::from(values, shape);
}

// ops::matmul as layers call it; products of heads, and of fewer terms than a block, stay exact.
TEST(RoundedProducts, ApplyToLayersOnly) {
  if (bf16_kernel() == nullptr) GTEST_SKIP() << "this processor has no kernel of bf16 products";
  const Tensor x = random({2, 30, 40}, 1), w = random({50, 40}, 2), heads = random({1, 30, 40}, 3),
               keys = random({1, 50, 40}, 4), short_x = random({30, 31}, 5),
               short_w = random({50, 31}, 6);
  const auto all = [&] {
    const Tensor y({60, 50}, DType::f32);
    ops::linear_into(x.reshape({60, 40}), {}, {w}, false, Tensor(), y);
    std::vector<Tensor> results = {ops::matmul(x, w, false, true).reshape({60, 50}), y};
    for (const double alpha : {1.0, 0.5})
      results.push_back(ops::head_matmul(heads, keys, 0, true, alpha));
    results.push_back(ops::matmul(heads, keys, false, true));
    results.push_back(ops::matmul(short_x, short_w, false, true));
    return results;
  };
  const std::vector<Tensor> exact = all();
  context().products = FloatProducts::rounded;
  const std::vector<Tensor> rounded = all();
  context().products = FloatProducts::exact;
  std::vector<float> expected(3000);
  GemmShape shape;
  shape.rows = 60, shape.cols = 50, shape.inner = 40;
  shape.transpose_b = true;
  packed_gemm(context(), *bf16_kernel(), shape, x.data<float>(), w.data<float>(), expected.data());
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(rounded[i].to_doubles() == exact[i].to_doubles(), i >= 2) << i;
    if (i < 2) {
      EXPECT_EQ(rounded[i].to_vector<float>(), expected) << i;
    }
  }
}

// Products of heads that ask for it: those of the packed kernel, times alpha, for each head's factor.
TEST(RoundedProducts, ApplyToHeadsThatAskForThem) {
  if (bf16_kernel() == nullptr) GTEST_SKIP() << "this processor has no kernel of bf16 products";
  constexpr int64_t kHeads = 3, kRows = 30, kTermsOfRow = 40, kCols = 50, kFirst = 2;
  const Tensor x = random({5, kRows, kTermsOfRow}, 1), w = random({kHeads, kCols, kTermsOfRow}, 2);
  context().products = FloatProducts::rounded;
  const Tensor y = ops::head_matmul(x, w, kFirst, true, 0.5, true);
  const Tensor logs = ops::random_logs(x, w, kFirst, 0.5),
               dx = ops::random_logs_backward(x, y, w, kFirst, 0.5);
  context().products = FloatProducts::exact;
  EXPECT_NE(logs.to_doubles(), ops::random_logs(x, w, kFirst, 0.5).to_doubles());
  EXPECT_NE(dx.to_doubles(), ops::random_logs_backward(x, y, w, kFirst, 0.5).to_doubles());
  const GemmShape shape{.transpose_b = true, .rows = kRows, .cols = kCols, .inner = kTermsOfRow};
  for (int64_t bh = 0; bh < 5; ++bh) {
    std::vector<float> expected(kRows * kCols);
    packed_gemm(context(), *bf16_kernel(), shape, x.select(bh).data<float>(),
                w.select((kFirst + bh) % kHeads).data<float>(), expected.data());
    for (float& value : expected) value *= 0.5f;
    EXPECT_EQ(y.select(bh).to_vector<float>(), expected) << bh;
  }
}

}  // namespace
}  // namespace linea::cpu
