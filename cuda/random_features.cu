// Random features (nn/attention/performer.cpp), except for plain matrix products: rows x of D
// elements and rows of F features. One kernel computes a row's logs, the product with omega minus
// the norm term.
#include "cuda/kernel_tables.h"
#include "cuda/team.h"
#include "cuda/tile.h"

namespace linea::cuda {
namespace {

// |x|^2, by a warp.
template <typename T>
__device__ Accumulator<T> square_norm(const T* x, int64_t D) {
  using A = Accumulator<T>;
  A total = 0;
  for (int64_t d = WarpTeam{}.rank(); d < D; d += kWarp) total += A(x[d]) * A(x[d]);
  return WarpTeam{}.sum(total);
}

// Tiles of 64 rows of one (batch, head).
__device__ inline int64_t first_row(int64_t tiles) { return blockIdx.x % tiles * kTile; }
inline dim3 grid_of(const HeadShape& shape, int64_t columns) {
  return {static_cast<unsigned>(shape.batch_heads * tiles_of(shape.rows)),
          static_cast<unsigned>(tiles_of(columns))};
}

// A tile of 64 rows and 64 features; each row is read once.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    logs_kernel(HeadShape shape, int64_t tiles, const T* x, const T* omega, Accumulator<T> scale,
                T* u) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ A norm[kTile];
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / tiles, first = first_row(tiles), F = shape.features,
                D = shape.key_size;
  const int64_t first_f = static_cast<int64_t>(blockIdx.y) * kTile, row = bh * shape.rows + first;
  const int count = static_cast<int>(shape.rows - first < kTile ? shape.rows - first : kTile);
  const T *rows = x + row * D, *of_head = omega + shape.head(bh) * F * D;
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < count; i += kBlockThreads / kWarp) {
    const A square = square_norm(rows + i * D, D);
    if (threadIdx.x % kWarp == 0) norm[i] = scale * scale / 2 * square;
  }
  Sums<A> sum;
  add_product<Along::terms, Along::terms>(
      sum, D, [&](int i, int64_t d) { return i < count ? A(rows[i * D + d]) : A(0); },
      [&](int f, int64_t d) { return first_f + f < F ? A(of_head[(first_f + f) * D + d]) : A(0); },
      panels);
  Sums<A>::each([&](int e, int i, int f) {
    if (i < count && first_f + f < F) u[(row + i) * F + first_f + f] = T(scale * sum[e] - norm[i]);
  });
}

// A tile of 64 rows and 64 of their columns.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    logs_backward_kernel(HeadShape shape, int64_t tiles, const T* x, const T* du, const T* omega,
                         Accumulator<T> scale, T* dx) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ A total[kTile];  // sum_f du_f
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / tiles, first = first_row(tiles), F = shape.features,
                D = shape.key_size;
  const int64_t first_d = static_cast<int64_t>(blockIdx.y) * kTile, row = bh * shape.rows + first;
  const int count = static_cast<int>(shape.rows - first < kTile ? shape.rows - first : kTile);
  const T *grads = du + row * F, *of_head = omega + shape.head(bh) * F * D;
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < count; i += kBlockThreads / kWarp) {
    A sum = 0;
    for (int64_t f = threadIdx.x % kWarp; f < F; f += kWarp) sum += A(grads[i * F + f]);
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) total[i] = sum;
  }
  Sums<A> sum;
  add_product<Along::terms, Along::tile>(
      sum, F, [&](int i, int64_t f) { return i < count ? A(grads[i * F + f]) : A(0); },
      [&](int d, int64_t f) { return first_d + d < D ? A(of_head[f * D + first_d + d]) : A(0); },
      panels);
  Sums<A>::each([&](int e, int i, int d) {
    const int64_t at = (row + i) * D + first_d + d;
    if (i < count && first_d + d < D) dx[at] = T(scale * (sum[e] - scale * total[i] * A(x[at])));
  });
}

}  // namespace

template <typename T>
void random_logs(Context& ctx, const HeadShape& given, const T* x, const T* omega, double scale,
                 T* u) {
  const HeadShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads * shape.rows * shape.features == 0) return;
  launch(logs_kernel<T>, grid_of(shape, shape.features), dim3(kBlockThreads), 0, stream(ctx), shape,
         tiles_of(shape.rows), x, omega, static_cast<Accumulator<T>>(scale), u);
}

template <typename T>
void random_logs_backward(Context& ctx, const HeadShape& given, const T* x, const T* du,
                          const T* omega, double scale, T* dx) {
  const HeadShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads * shape.rows * shape.key_size == 0) return;
  launch(logs_backward_kernel<T>, grid_of(shape, shape.key_size), dim3(kBlockThreads), 0,
         stream(ctx), shape, tiles_of(shape.rows), x, du, omega, static_cast<Accumulator<T>>(scale),
         dx);
}

template <typename T>
void sine_cosine(Context& ctx, const T* u, T* y, int64_t R, int64_t n) {
  using A = Accumulator<T>;
  for_each_column(ctx, R, n, [=] __device__(int64_t r, int64_t i) {
    const A angle = A(u[r * n + i]);
    y[2 * r * n + i] = T(std::sin(angle));
    y[2 * r * n + n + i] = T(std::cos(angle));
  });
}

// d sin = cos du, d cos = -sin du
template <typename T>
void sine_cosine_backward(Context& ctx, const T* y, const T* dy, T* du, int64_t R, int64_t n) {
  using A = Accumulator<T>;
  for_each_column(ctx, R, n, [=] __device__(int64_t r, int64_t i) {
    const int64_t sine = 2 * r * n + i, cosine = sine + n;
    du[r * n + i] = T(A(y[cosine]) * A(dy[sine]) - A(y[sine]) * A(dy[cosine]));
  });
}

LINEA_REAL_KERNEL_TABLE(RandomFeatureKernels, .random_logs = random_logs<T>,
                        .random_logs_backward = random_logs_backward<T>,
                        .sine_cosine = sine_cosine<T>,
                        .sine_cosine_backward = sine_cosine_backward<T>)

}  // namespace linea::cuda
