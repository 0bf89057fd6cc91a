// Random features (nn/attention/performer.cpp), except for plain matrix products: rows x of D
// elements and rows of F features. One kernel computes a row's logs, the product with omega minus
// the norm term; another likewise their gradient.
#include "cuda/kernel_tables.h"
#include "cuda/team.h"
#include "cuda/tile.h"

namespace linea::cuda {
namespace {

// Rows x [BH,S,width] times the matrices [F,D] of their heads, transposed or not: 64 rows by 64 of
// the `columns` of the product. Calls finish(row, column, product, sum of of_element(x) over the row).
template <bool kTransposed, typename T, typename OfElement, typename Finish>
__global__ void __launch_bounds__(kBlockThreads)
    head_products_kernel(HeadShape shape, int64_t tiles, const T* x, int64_t width, const T* omega,
                         int64_t columns, OfElement of_element, Finish finish) {
  __shared__ Panels<T> panels;
  __shared__ T sums[kTile];
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / tiles, first = blockIdx.x % tiles * kTile,
                row = bh * shape.rows + first, F = shape.features, D = shape.key_size,
                first_c = static_cast<int64_t>(blockIdx.y) * kTile;
  const TileRows<T> rows = matrix_rows(x + row * width, within_tile(shape.rows - first), width),
                    of_head = matrix_rows(omega + shape.head(bh) * F * D, F, D);
  for (int i = own_warp(); i < rows.count; i += kBlockWarps) {
    const T sum =
        WarpTeam{}.sum_of(width, [&](int64_t d) { return of_element(rows.or_zero(i, d)); });
    if (own_lane() == 0) sums[i] = sum;
  }
  Sums<T> product;
  if constexpr (kTransposed)
    add_product<Along::terms, Along::terms>(product, width, by_rows(rows),
                                            by_rows(of_head.from(first_c)), panels);
  else
    add_product<Along::terms, Along::tile>(product, width, by_rows(rows),
                                           by_columns(of_head, first_c), panels);
  Sums<T>::each([&](int e, int i, int c) {
    if (i < rows.count && first_c + c < columns) finish(row + i, first_c + c, product[e], sums[i]);
  });
}

template <bool kTransposed, typename T, typename OfElement, typename Finish>
void head_products(Context& ctx, const HeadShape& given, const T* x, const T* omega,
                   const OfElement& of_element, const Finish& finish) {
  const HeadShape shape = as_multiplied<T>(ctx, given);
  const int64_t tiles = tiles_of(shape.rows), F = shape.features, D = shape.key_size;
  const int64_t width = kTransposed ? D : F, columns = kTransposed ? F : D;
  if (shape.batch_heads * shape.rows * columns == 0) return;
  launch_blocks(ctx, grid_of(shape.batch_heads * tiles, tiles_of(columns)),
                head_products_kernel<kTransposed, T, OfElement, Finish>, shape, tiles, x, width,
                omega, columns, of_element, finish);
}

}  // namespace

template <typename T>
void random_logs(Context& ctx, const HeadShape& shape, const T* x, const T* omega, double by,
                 T* u) {
  const T scale = static_cast<T>(by);
  const int64_t F = shape.features;
  head_products<true>(
      ctx, shape, x, omega, [=] __device__(T element) { return element * element; },
      [=] __device__(int64_t row, int64_t f, T product, T square) {
        u[row * F + f] = scale * product - scale * scale / 2 * square;
      });
}

template <typename T>
void random_logs_backward(Context& ctx, const HeadShape& shape, const T* x, const T* du,
                          const T* omega, double by, T* dx) {
  const T scale = static_cast<T>(by);
  const int64_t D = shape.key_size;
  head_products<false>(
      ctx, shape, du, omega, [=] __device__(T element) { return element; },
      [=] __device__(int64_t row, int64_t d, T product, T total) {
        dx[row * D + d] = scale * (product - scale * total * x[row * D + d]);
      });
}

template <typename T>
void sine_cosine(Context& ctx, const T* u, T* y, int64_t R, int64_t n) {
  for_each_column(ctx, R, n, [=] __device__(int64_t r, int64_t i) {
    const T angle = u[r * n + i];
    y[2 * r * n + i] = std::sin(angle);
    y[2 * r * n + n + i] = std::cos(angle);
  });
}

// d sin = cos du, d cos = -sin du
template <typename T>
void sine_cosine_backward(Context& ctx, const T* y, const T* dy, T* du, int64_t R, int64_t n) {
  for_each_column(ctx, R, n, [=] __device__(int64_t r, int64_t i) {
    const int64_t sine = 2 * r * n + i, cosine = sine + n;
    du[r * n + i] = y[cosine] * dy[sine] - y[sine] * dy[cosine];
  });
}

LINEA_REAL_KERNEL_TABLE(RandomFeatureKernels, .random_logs = random_logs<T>,
                        .random_logs_backward = random_logs_backward<T>,
                        .sine_cosine = sine_cosine<T>,
                        .sine_cosine_backward = sine_cosine_backward<T>)

}  // namespace linea::cuda
