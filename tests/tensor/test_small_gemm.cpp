// The products of matrices in cache against three plain loops: every size around the edges of a
// tile, operands read transposed, rows that are further apart than they are long.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tensor/cpu/small_gemm.h"

namespace linea::cpu {
namespace {

template <typename T>
std::vector<T> sample(int64_t count, uint32_t stream_id) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(
        static_cast<T>(random_normal({1, Purpose::test, stream_id, 0}, static_cast<uint64_t>(i))));
  return values;
}

template <typename T>
using Product = void (*)(int64_t, int64_t, int64_t, Operand<T>, const T*, int64_t, T*, int64_t,
                         bool);

template <typename T>
void expect_product(Product<T> product, int64_t rows, int64_t cols, int64_t inner, bool transpose_a,
                    bool add) {
  const int64_t lda = (transpose_a ? rows : inner) + 3, ldb = cols + 2, ldc = cols + 5;
  const auto a = sample<T>(lda * (transpose_a ? inner : rows), 1), b = sample<T>(ldb * inner, 2);
  const auto before = sample<T>(ldc * rows, 3);
  auto c = before;
  product(rows, cols, inner, transpose_a ? transposed(a.data(), lda) : plain(a.data(), lda),
          b.data(), ldb, c.data(), ldc, add);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<size_t>(i * ldc + j);
      double sum = j >= cols || add ? static_cast<double>(before[at]) : 0;
      for (int64_t k = 0; j < cols && k < inner; ++k)
        sum +=
            static_cast<double>(a[static_cast<size_t>(transpose_a ? k * lda + i : i * lda + k)]) *
            static_cast<double>(b[static_cast<size_t>(k * ldb + j)]);
      ASSERT_NEAR(static_cast<double>(c[at]), sum, sizeof(T) == 4 ? 1e-4 : 1e-12)
          << rows << " x " << cols << " x " << inner << " at " << i << ", " << j;
    }
}

TEST(SmallGemm, MatchesThreeLoops) {
  for (const int64_t rows : {0, 1, 2, 3, 7, 8, 15, 19})
    for (const int64_t cols : {0, 1, 3, 4, 8, 15, 16, 31, 33, 63})
      for (const int64_t inner : {0, 1, 5, 32})
        for (const bool transpose_a : {false, true})
          for (const bool add : {false, true}) {
            expect_product<float>(small_gemm<float>, rows, cols, inner, transpose_a, add);
            expect_product<float>(tile_gemm<float>, rows, cols, inner, transpose_a, add);
            expect_product<double>(small_gemm<double>, rows, cols, inner, transpose_a, add);
            expect_product<double>(tile_gemm<double>, rows, cols, inner, transpose_a, add);
          }
}

TEST(SmallGemm, Transposes) {
  for (const int64_t rows : {1, 15, 16, 37})
    for (const int64_t cols : {1, 4, 19, 33}) {
      const auto x = sample<float>(rows * (cols + 1), 4);
      std::vector<float> y(static_cast<size_t>(cols * (rows + 2)), -1);
      transpose<float>(rows, cols, x.data(), cols + 1, y.data(), rows + 2);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j)
          ASSERT_EQ(y[static_cast<size_t>(j * (rows + 2) + i)],
                    x[static_cast<size_t>(i * (cols + 1) + j)]);
      ASSERT_EQ(y[static_cast<size_t>(rows)], -1);
    }
}

}  // namespace
}  // namespace linea::cpu
