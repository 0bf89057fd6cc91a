// Means and maxima of spans of rows. For span c of rows J_c, and columns apart:
//
//   y_c = sum_{j in J_c} x_j / |J_c|      dx_j = sum_{c: j in J_c} dy_c / |J_c|
//   y_c = max_{j in J_c} x_j              dx_j = sum of dy_c where x_j is the first of the largest
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

template <typename T>
void pool_spans(Context& ctx, const SpanShape& shape, const T* x, T* y, int32_t* chosen) {
  const int64_t W = shape.width;
  const T share = T(1) / static_cast<T>(shape.size);
  parallel_rows(ctx, shape.batch_heads * shape.count, W * shape.size, [&](int64_t item) {
    const int64_t bh = item / shape.count, first = item % shape.count * shape.stride;
    const T* const rows = x + (bh * shape.rows + first) * W;
    T* const result = y + item * W;
    std::copy_n(rows, W, result);
    int32_t* const at = chosen == nullptr ? nullptr : chosen + item * W;
    if (at != nullptr) std::fill_n(at, W, static_cast<int32_t>(first));
    for (int64_t row = 1; row < shape.size; ++row)
      for (int64_t w = 0; w < W; ++w) {
        const T number = rows[row * W + w];
        if (!shape.largest) {
          result[w] += number;
        } else if (number > result[w]) {
          result[w] = number;
          if (at != nullptr) at[w] = static_cast<int32_t>(first + row);
        }
      }
    for (int64_t w = 0; w < W && !shape.largest; ++w) result[w] *= share;
  });
}

template <typename T>
void pool_spans_backward(Context& ctx, const SpanShape& shape, const T* dy, const int32_t* chosen,
                         T* dx) {
  const int64_t W = shape.width;
  const T share = T(1) / static_cast<T>(shape.size);
  parallel_rows(ctx, shape.batch_heads, W * (shape.rows + shape.count * shape.size),
                [&](int64_t bh) {
                  T* const rows = dx + bh * shape.rows * W;
                  std::fill_n(rows, shape.rows * W, T(0));
                  for (int64_t c = 0; c < shape.count; ++c) {
                    const int64_t at = (bh * shape.count + c) * W;
                    if (shape.largest) {
                      for (int64_t w = 0; w < W; ++w) rows[chosen[at + w] * W + w] += dy[at + w];
                      continue;
                    }
                    for (int64_t row = c * shape.stride; row < c * shape.stride + shape.size; ++row)
                      for (int64_t w = 0; w < W; ++w) rows[row * W + w] += share * dy[at + w];
                  }
                });
}

LINEA_KERNEL_TABLE(SpanKernels, .pool_spans = pool_spans<T>,
                   .pool_spans_backward = pool_spans_backward<T>)

}  // namespace linea::cpu
