// The column of largest product with each row, a decision: products of floats in double, in the order of
// the width, so that no product is rounded and every instruction set decides alike.
#include <algorithm>

#include "tensor/cpu/chunk_rows.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

constexpr int64_t kRows = 128, kTogether = 4;  // of an item; that read a column together

double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }

// Products of kTogether rows x [width,kTogether] with the columns w [width,columns].
void multiply(const double* x, const double* w, int64_t width, int64_t columns, double* y) {
  std::fill_n(y, kTogether * columns, 0.0);
  for (int64_t d = 0; d < width; ++d)
    for (int64_t i = 0; i < kTogether; ++i) {
      const double factor = x[d * kTogether + i];
      double* const row = y + i * columns;
#pragma omp simd
      for (int64_t c = 0; c < columns; ++c) row[c] += factor * w[d * columns + c];
    }
}

int32_t first_largest(const double* y, int64_t columns, bool mirrored) {
  int64_t best = 0;
  double largest = y[0];
  for (int64_t c = 1; c < columns; ++c)
    if (y[c] > largest) largest = y[best = c];
  for (int64_t c = 0; mirrored && c < columns; ++c)
    if (-y[c] > largest) largest = -y[c], best = columns + c;
  return static_cast<int32_t>(best);
}

}  // namespace

template <typename T>
void largest_product(Context& ctx, const LargestProductShape& shape, const HeadRows<const T>& x,
                     const T* w, int32_t* chosen) {
  const int64_t W = shape.width, C = shape.columns, R = shape.rounds;
  const int64_t blocks = (shape.rows + kRows - 1) / kRows;
  const int64_t each = (W + kTogether) * C + W * kTogether;
  const Workspace<double> workspace(ctx, ctx.threads * each);
  parallel_items(
      ctx, shape.batch_heads * R * blocks, std::min(shape.rows, kRows) * W * C,
      [&](int64_t item, int thread) {
        const int64_t bh = item / (R * blocks), round = item / blocks % R,
                      first = item % blocks * kRows;
        double *const columns = workspace.data() + thread * each, *const products = columns + W * C,
                      *const rows = products + kTogether * C;
        const T* const own = w + (bh % shape.heads * R + round) * W * C;
        for (int64_t i = 0; i < W * C; ++i) columns[i] = rounded(static_cast<double>(own[i]));
        const int64_t end = std::min(shape.rows, first + kRows);
        for (int64_t row = first; row < end; row += kTogether) {
          const int64_t count = std::min(kTogether, end - row);
          for (int64_t i = 0; i < kTogether; ++i)
            for (int64_t d = 0; d < W; ++d)
              rows[d * kTogether + i] =
                  rounded(static_cast<double>(x.at(bh, row + std::min(i, count - 1))[d]));
          multiply(rows, columns, W, C, products);
          for (int64_t i = 0; i < count; ++i)
            chosen[(bh * R + round) * shape.rows + row + i] =
                first_largest(products + i * C, C, shape.mirrored);
        }
      });
}

LINEA_KERNEL_TABLE(LargestProductKernels, .largest_product = largest_product<T>)

}  // namespace linea::cpu
