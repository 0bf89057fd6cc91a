// Products of factors in cache that are rounded to bf16, equal to the bit to fmaf loops: operands of
// both orders, sizes around the edges of bands and blocks, and bands that need a part of the terms.
#include "tensor/cpu/chunk_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tensor/bfloat16.h"
#include "tensor/ops.h"

namespace linea::cpu {
namespace {

std::vector<float> normals(int64_t count, uint32_t stream_id) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(
        random_normal({1, Purpose::test, stream_id, 0}, static_cast<uint64_t>(i))));
  return values;
}

float rounded_element(const Operand<float>& x, int64_t i, int64_t k) {
  return BFloat16(x.at(i, k).data[0]);
}

// The terms [begin, end) of c[i,j] in blocks: of each pair the odd element first, unless `even_first`.
float sum_of(const Operand<float>& a, const Operand<float>& b, int64_t i, int64_t j, Extent needed,
             const float* before, bool even_first = false) {
  float total = before == nullptr ? 0 : *before;
  for (int64_t block = 0; block < needed.end; block += kBandTerms) {
    float sum = 0;
    const int64_t end = std::min(needed.end, block + kBandTerms);
    for (int64_t k = std::max(block, needed.begin); k < end; k += 2)
      for (const int64_t term : {even_first ? k : k + 1, even_first ? k + 1 : k})
        if (term < end)
          sum = std::fmaf(rounded_element(a, i, term), rounded_element(b, j, term), sum);
    total = block == 0 && before == nullptr ? sum : total + sum;
  }
  return total;
}

class RoundedChunks : public testing::Test {
 protected:
  void SetUp() override {
    if (!rounds_chunks()) GTEST_SKIP() << "this processor multiplies chunks in float";
  }
};

// The number of elements of c that differ, in all orders of the operands.
template <typename ExtentOf>
int64_t differences(int64_t rows, int64_t cols, int64_t inner, bool add, const ExtentOf& extent,
                    bool even_first = false) {
  constexpr int64_t kGap = 3;
  int64_t count = 0;
  for (const bool along_a : {true, false})
    for (const bool along_b : {true, false}) {
      const auto data_a = normals((rows + kGap) * (inner + kGap), 1),
                 data_b = normals((cols + kGap) * (inner + kGap), 2);
      const auto operand = [&](const std::vector<float>& data, bool along, int64_t vectors) {
        return along ? plain(data.data(), inner + kGap) : transposed(data.data(), vectors + kGap);
      };
      const Operand<float> a = operand(data_a, along_a, rows), b = operand(data_b, along_b, cols);
      const std::vector<float> before = normals(rows * (cols + kGap), 3);
      std::vector<float> c = before;
      multiply_rounded({rows, cols, inner}, a, {b.data, b.column, b.row}, {c.data(), cols + kGap},
                       add, extent);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t first = i / kBand * kBand;
        const Extent needed = extent(first, std::min(kBand, rows - first));
        for (int64_t j = 0; j < cols + kGap; ++j) {
          const auto at = static_cast<size_t>(i * (cols + kGap) + j);
          const float expected =
              j < needed.cols ? sum_of(a, b, i, j, needed, add ? &before[at] : nullptr, even_first)
                              : before[at];
          count += c[at] != expected;
        }
      }
    }
  return count;
}

TEST_F(RoundedChunks, EqualTheirSumsToTheBit) {
  for (const int64_t rows : {1, 8, 17, 66})
    for (const int64_t cols : {1, 33, 70})
      for (const int64_t inner : {1, 2, 31, 300})
        for (const bool add : {false, true}) {
          const auto all = [&](int64_t, int64_t) { return Extent{0, inner, cols}; };
          EXPECT_EQ(differences(rows, cols, inner, add, all), 0)
              << rows << " x " << cols << " x " << inner;
        }
}

TEST_F(RoundedChunks, ComputeOnlyWhatABandNeeds) {
  for (const int64_t size : {9, 32, 64, 100, 300}) {
    const auto past = [](int64_t first, int64_t rows) { return Extent{0, first + rows, 70}; };
    const auto future = [&](int64_t first, int64_t) { return Extent{first, size, 70}; };
    const auto columns = [&](int64_t first, int64_t rows) { return Extent{0, 64, first + rows}; };
    EXPECT_EQ(differences(size, 70, size, true, past), 0) << size;
    EXPECT_EQ(differences(size, 70, size, true, future), 0) << size;
    EXPECT_EQ(differences(size, size, 64, false, columns), 0) << size;
  }
}

TEST_F(RoundedChunks, AnotherOrderOfSumsIsDetected) {
  const auto all = [](int64_t, int64_t) { return Extent{0, 64, 32}; };
  EXPECT_GT(differences(32, 32, 64, false, all, true), 100);
}

TEST_F(RoundedChunks, AnEmptySumIsZero) {
  float c[6] = {1, 2, 3, 4, 5, 6};
  const auto none = [](int64_t, int64_t) { return Extent{0, 0, 3}; };
  multiply_rounded({2, 3, 0}, {}, {}, {c, 3}, true, none);
  EXPECT_EQ(c[5], 6);
  multiply_rounded({2, 3, 0}, {}, {}, {c, 3}, false, none);
  for (const float x : c) EXPECT_EQ(x, 0);
}

// Panels for sampling round both factors; sums in float, of rows one by one and together.
TEST_F(RoundedChunks, PanelsMultiplyRoundedFactors) {
  for (const int64_t in : {32, 96, 544})
    for (const int64_t out : {1, 16, 17, 70})
      for (const int64_t rows : {1, 2, 5, 17, 65}) {
        const auto x = normals(rows * in, 4), w = normals(out * in, 5), bias = normals(out, 6);
        const Tensor weight = Tensor::from(w, {out, in}), y({rows, out}, DType::f32),
                     panels(ops::panels_shape(weight), DType::bf16);
        ops::pack_panels_into(weight, panels);
        for (const bool biased : {false, true}) {
          ops::panel_matmul_into(Tensor::from(x, {rows, in}), panels,
                                 biased ? Tensor::from(bias, {out}) : Tensor(), y);
          const std::vector<float> found = y.to_vector<float>();
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < out; ++j) {
              double sum = biased ? static_cast<double>(bias[static_cast<size_t>(j)]) : 0, size = 1;
              for (int64_t k = 0; k < in; ++k) {
                const double term = static_cast<double>(rounded_element({x.data(), in}, i, k)) *
                                    static_cast<double>(rounded_element({w.data(), in}, j, k));
                sum += term;
                size += std::abs(term);
              }
              ASSERT_NEAR(static_cast<double>(found[static_cast<size_t>(i * out + j)]), sum,
                          1e-6 * size)
                  << rows << " x " << out << " x " << in;
            }
        }
      }
}

// One row times a panel: pair p of 16 is added to sum p % 4, the odd element first; then the sums in
// pairs; then what was there. `in_order`: one sum.
float row_sum(const Operand<float>& x, const Operand<float>& w, int64_t i, int64_t j, int64_t in,
              const float* before, bool in_order) {
  float sums[4] = {};
  for (int64_t k = 0; k < in; k += 2)
    for (const int64_t term : {k + 1, k}) {
      float& sum = sums[in_order ? 0 : k / 2 % 4];
      sum = std::fmaf(rounded_element(x, i, term), rounded_element(w, j, term), sum);
    }
  const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return before == nullptr ? sum : *before + sum;
}

// The number of elements of x w^T, or bias + x w^T, that differ from their sums. Of 65 rows one task
// takes 64, and another the last.
int64_t panel_differences(int64_t rows, int64_t out, int64_t in, bool biased,
                          bool another_order = false) {
  const auto x = normals(rows * in, 4), w = normals(out * in, 5), bias = normals(out, 6);
  const Operand<float> from_x{x.data(), in}, from_w{w.data(), in};
  const Tensor weight = Tensor::from(w, {out, in}), y({rows, out}, DType::f32),
               panels(ops::panels_shape(weight), DType::bf16);
  ops::pack_panels_into(weight, panels);
  ops::panel_matmul_into(Tensor::from(x, {rows, in}), panels,
                         biased ? Tensor::from(bias, {out}) : Tensor(), y);
  int64_t count = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < out; ++j) {
      const float* const before = biased ? &bias[static_cast<size_t>(j)] : nullptr;
      const float expected =
          i % 64 == 0 && i + 1 == rows
              ? row_sum(from_x, from_w, i, j, in, before, another_order)
              : sum_of(from_x, from_w, i, j, {0, in, out}, before, another_order);
      count += y.data<float>()[i * out + j] != expected;
    }
  return count;
}

TEST_F(RoundedChunks, PanelsEqualTheirSumsToTheBit) {
  for (const int64_t in : {32, 96, 288})
    for (const int64_t out : {1, 15, 17, 33, 70})
      for (const int64_t rows : {1, 2, 5, 16, 65})
        for (const bool biased : {false, true})
          EXPECT_EQ(panel_differences(rows, out, in, biased), 0)
              << rows << " x " << out << " x " << in << ", bias " << biased;
}

TEST_F(RoundedChunks, AnotherOrderOfAPanelsSumsIsDetected) {
  for (const int64_t rows : {1, 5}) EXPECT_GT(panel_differences(rows, 70, 96, true, true), 20);
}

}  // namespace
}  // namespace linea::cpu
