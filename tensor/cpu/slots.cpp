// Kernels of attention that compresses positions to slots; their formulas are in autograd/slots.cpp.
#include <algorithm>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {
namespace {

// The first row of segment c.
int64_t first_row(const SlotShape& shape, int64_t bh, int64_t c) {
  return c * valid_keys(shape.valid, bh, shape.rows) / shape.slots;
}

// The first of the columns of a [m,m] with the largest sum, and that sum.
template <typename T>
std::pair<int64_t, T> largest_column(const T* a, int64_t m, T* sums) {
  std::fill_n(sums, m, T(0));
  for (int64_t i = 0; i < m; ++i) add_row(a + i * m, sums, m, T(1));
  const T* const largest = std::max_element(sums, sums + m);
  return {largest - sums, *largest};
}

}  // namespace

template <typename T>
void softplus_backward(Context& ctx, const T* y, const T* dy, T* dx, int64_t n) {
  parallel_map(ctx, dx, n, 20, [=](int64_t i) { return dy[i] * (T(1) - exp_below(-y[i])); });
}

template <typename T>
void divide_by_count(Context& ctx, const SlotShape& shape, const T* x, double factor, T* y) {
  const int64_t N = shape.rows, C = shape.width;
  parallel_rows(ctx, shape.batch_heads * N, C, [&](int64_t row) {
    const int64_t valid = valid_keys(shape.valid, row / N, shape.first + N),
                  count = std::clamp<int64_t>(shape.first + row % N + 1, 1,
                                              std::max<int64_t>(valid, 1));
    copy_scaled(x + row * C, y + row * C, C, static_cast<T>(factor / static_cast<double>(count)));
  });
}

template <typename T>
void segment_means(Context& ctx, const SlotShape& shape, const T* x, T* y) {
  const int64_t N = shape.rows, C = shape.width, m = shape.slots;
  parallel_rows(ctx, shape.batch_heads * m, N / m * C, [&](int64_t item) {
    const int64_t bh = item / m, first = first_row(shape, bh, item % m),
                  end = first_row(shape, bh, item % m + 1);
    T* const mean = y + item * C;
    std::fill_n(mean, C, T(0));
    for (int64_t n = first; n < end; ++n) add_row(x + (bh * N + n) * C, mean, C, T(1));
    if (end > first) scale_row(mean, C, T(1) / static_cast<T>(end - first));
  });
}

template <typename T>
void segment_means_backward(Context& ctx, const SlotShape& shape, const T* dy, T* dx) {
  const int64_t N = shape.rows, C = shape.width, m = shape.slots;
  parallel_rows(ctx, shape.batch_heads, N * C, [&](int64_t bh) {
    std::fill_n(dx + bh * N * C, N * C, T(0));
    for (int64_t c = 0; c < m; ++c) {
      const int64_t first = first_row(shape, bh, c), end = first_row(shape, bh, c + 1);
      for (int64_t n = first; n < end; ++n)
        add_row(dy + (bh * m + c) * C, dx + (bh * N + n) * C, C,
                T(1) / static_cast<T>(end - first));
    }
  });
}

template <typename T>
void transpose_over_norm(Context& ctx, const T* a, T* z, int64_t R, int64_t m) {
  const Workspace<T> sums(ctx, R * m);
  parallel_rows(ctx, R, 2 * m * m, [&](int64_t r) {
    const T *from = a + r * m * m, norm = largest_column(from, m, sums.data() + r * m).second;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < m; ++j) z[(r * m + j) * m + i] = from[i * m + j] / norm;
  });
}

template <typename T>
void transpose_over_norm_backward(Context& ctx, const T* a, const T* dz, T* da, int64_t R,
                                  int64_t m) {
  const Workspace<T> sums(ctx, R * m);
  parallel_rows(ctx, R, 4 * m * m, [&](int64_t r) {
    const T *from = a + r * m * m, *grad = dz + r * m * m;
    T* const to = da + r * m * m;
    const auto [column, norm] = largest_column(from, m, sums.data() + r * m);
    T along = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < m; ++j) {
        to[i * m + j] = grad[j * m + i] / norm;
        along += to[i * m + j] * from[i * m + j];
      }
    for (int64_t i = 0; i < m; ++i) to[i * m + column] -= along / norm;
  });
}

// `slots` taps.
template <typename T>
void centered_convolution(Context& ctx, const SlotShape& shape, const T* x, const T* w, T* y) {
  const int64_t N = shape.rows, C = shape.width, taps = shape.slots;
  parallel_rows(ctx, shape.batch_heads * N, taps * C, [&](int64_t row) {
    const int64_t bh = row / N, n = row % N, valid = valid_keys(shape.valid, bh, N);
    std::fill_n(y + row * C, C, T(0));
    for (int64_t t = 0; t < taps; ++t)
      if (const int64_t from = n + t - taps / 2; from >= 0 && from < valid)
        add_row(x + (bh * N + from) * C, y + row * C, C, w[bh % shape.heads * taps + t]);
  });
}

// dw [BH,taps]
template <typename T>
void centered_convolution_backward(Context& ctx, const SlotShape& shape, const T* x, const T* w,
                                   const T* dy, T* dx, T* dw) {
  const int64_t N = shape.rows, C = shape.width, taps = shape.slots;
  parallel_rows(ctx, shape.batch_heads * N, taps * C, [&](int64_t row) {
    const int64_t bh = row / N, n = row % N;
    std::fill_n(dx + row * C, C, T(0));
    if (n >= valid_keys(shape.valid, bh, N)) return;
    for (int64_t t = 0; t < taps; ++t)
      if (const int64_t to = n - t + taps / 2; to >= 0 && to < N)
        add_row(dy + (bh * N + to) * C, dx + row * C, C, w[bh % shape.heads * taps + t]);
  });
  parallel_rows(ctx, shape.batch_heads * taps, N * C, [&](int64_t item) {
    const int64_t bh = item / taps, shift = item % taps - taps / 2,
                  valid = valid_keys(shape.valid, bh, N);
    dw[item] = 0;
    for (int64_t n = std::max<int64_t>(0, -shift); n < std::min(N, valid - shift); ++n)
      dw[item] += dot(dy + (bh * N + n) * C, x + (bh * N + n + shift) * C, C);
  });
}

LINEA_KERNEL_TABLE(SlotKernels, .softplus_backward = softplus_backward<T>,
                   .divide_by_count = divide_by_count<T>, .segment_means = segment_means<T>,
                   .segment_means_backward = segment_means_backward<T>,
                   .transpose_over_norm = transpose_over_norm<T>,
                   .transpose_over_norm_backward = transpose_over_norm_backward<T>,
                   .centered_convolution = centered_convolution<T>,
                   .centered_convolution_backward = centered_convolution_backward<T>)

}  // namespace linea::cpu
