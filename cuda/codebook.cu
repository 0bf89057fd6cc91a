// Features computed with a codebook c [H,F,D] (nn/attention/soft_vq.cpp, vq.cpp), except for the
// matrix products.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"
#include "cuda/team.h"
#include "cuda/tile.h"

namespace linea::cuda {
namespace {

// The first (batch, head) of a head; its others follow at distances of `heads`.
LINEA_HOST_DEVICE inline int64_t first_bh_of(const HeadShape& shape, int64_t head) {
  return (head - shape.first_bh % shape.heads + shape.heads) % shape.heads;
}

// Codes of 64 rows. Every distance is summed over d in the same order, independent of the other rows
// and codes.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    nearest_code_kernel(HeadShape shape, int64_t tiles, const T* x, const T* codebook,
                        int32_t* code) {
  __shared__ Panels<T> panels;
  __shared__ T nearest[2][kTile];  // of 32 columns of each tile of codes
  __shared__ int indices[2][kTile];
  const int64_t bh = blockIdx.x / tiles, first = blockIdx.x % tiles * kTile, F = shape.features,
                D = shape.key_size, row = bh * shape.rows + first, of_head = shape.head(bh) * F;
  const TileRows<T> rows = matrix_rows(x + row * D, within_tile(shape.rows - first), D),
                    codes = matrix_rows(codebook + of_head * D, F, D);
  T min[2] = {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::infinity()};
  int best[2] = {};  // of the thread's two rows
  for (int64_t first_f = 0; first_f < F; first_f += kTile) {
    Sums<T> distances;
    add_distances<Along::terms, Along::terms>(distances, D, by_rows(rows),
                                              by_rows(codes.from(first_f)), panels);
    Sums<T>::each([&](int e, int, int f) {
      const int own = (e & 2) / 2;
      if (first_f + f >= F || !(distances[e] < min[own])) return;
      min[own] = distances[e];
      best[own] = static_cast<int>(first_f + f);
    });
  }
  // Ties go to the first code.
  const auto compare = [](T& least, int& index, T other, int other_index) {
    const bool better = other < least || (other == least && other_index < index);
    least = better ? other : least;
    index = better ? other_index : index;
  };
#pragma unroll
  for (int own = 0; own < 2; ++own) {
    for (int apart = 1; apart < 4; apart *= 2)
      compare(min[own], best[own], __shfl_xor_sync(kWholeWarp, min[own], apart),
              __shfl_xor_sync(kWholeWarp, best[own], apart));
    if (own_lane() % 4 > 0) continue;
    nearest[core_col() / 32][core_row() + 8 * own] = min[own];
    indices[core_col() / 32][core_row() + 8 * own] = best[own];
  }
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  if (i >= rows.count) return;
  compare(nearest[0][i], indices[0][i], nearest[1][i], indices[1][i]);
  code[row + i] = static_cast<int32_t>(of_head + indices[0][i]);
}

}  // namespace

// u_f = k.c_f is replaced by b_f = g_f - log sum exp g, g_f = (u_f - |c_f|^2 / 2) / t
template <typename T>
void mixture_logs(Context& ctx, const HeadShape& shape, const T* codebook, const T* t, T* u) {
  const int64_t F = shape.features, D = shape.key_size;
  const Workspace<T> workspace(ctx, shape.heads * F);
  T* const halves = workspace.data();
  for_each_team(ctx, shape.heads * F, D, [=] __device__(auto team, int64_t f) {
    const T* const c = codebook + f * D;
    const T norm = team.sum_of(D, [&](int64_t d) { return c[d] * c[d]; });
    if (team.rank() == 0) halves[f] = norm / T(2);
  });
  for_each_team(ctx, shape.batch_heads * shape.rows, F, [=] __device__(auto team, int64_t row) {
    T* const logs = u + row * F;
    const T* const of_head = halves + shape.head(row / shape.rows) * F;
    const T inverse = T(1) / *t;
    const auto g = [&](int64_t f) { return (logs[f] - of_head[f]) * inverse; };
    const T max = team.max_of(F, g);
    const T all = max + std::log(team.sum_of(F, [&](int64_t f) { return exp_of(g(f) - max); }));
    for (int64_t f = team.rank(); f < F; f += team.kThreads) logs[f] = g(f) - all;
  });
}

// dg_f = db_f - exp(b_f) sum db;  du = dg / t;  dt = -sum_f dg_f g_f / t = -sum_f du_f b_f, because
// sum dg = 0
template <typename T>
void mixture_logs_backward(Context& ctx, const HeadShape& shape, const T* t, const T* logs,
                           T* dlogs, T* dt) {
  const int64_t F = shape.features, rows = shape.rows;
  const Workspace<T> workspace(ctx, shape.batch_heads * rows);
  T* const of_row = workspace.data();
  for_each_team(ctx, shape.batch_heads * rows, F, [=] __device__(auto team, int64_t row) {
    const T* b = logs + row * F;
    T* grad = dlogs + row * F;
    const T inverse = T(1) / *t, total = team.sum_of(F, [&](int64_t f) { return grad[f]; });
    const T along = team.sum_of(F, [&](int64_t f) {
      const T du = grad[f] = (grad[f] - exp_of(b[f]) * total) * inverse;
      return du == T(0) ? T(0) : du * b[f];
    });
    if (team.rank() == 0) of_row[row] = along;
  });
  for_each_row(ctx, shape.batch_heads, [=] __device__(int64_t bh) {
    const T all = BlockTeam{}.sum_of(rows, [&](int64_t row) { return of_row[bh * rows + row]; });
    if (threadIdx.x == 0) dt[bh] -= all;
  });
}

template <typename T>
void add_to_heads(Context& ctx, const HeadShape& shape, const T* part, const T* du,
                  const T* codebook, T* dcodebook) {
  const int64_t F = shape.features, D = shape.key_size, rows = shape.rows;
  const Workspace<T> workspace(ctx, du == nullptr ? 1 : shape.batch_heads * F);
  T* const sums = du == nullptr ? nullptr : workspace.data();
  if (du != nullptr)
    sum_columns_of(
        ctx, {shape.batch_heads, rows, F}, du,
        [=] __device__(int64_t bh, int64_t f, const T* total) { sums[bh * F + f] = total[0]; });
  for_each_column(ctx, shape.heads * F, D, [=] __device__(int64_t row, int64_t d) {
    const int64_t head = row / F, f = row % F;
    const T c = sums == nullptr ? T(0) : codebook[row * D + d];
    T total = dcodebook[row * D + d];
    for (int64_t bh = first_bh_of(shape, head); bh < shape.batch_heads; bh += shape.heads) {
      total += part[(bh * F + f) * D + d];
      if (sums != nullptr) total -= sums[bh * F + f] * c;
    }
    dcodebook[row * D + d] = total;
  });
}

template <typename T>
void nearest_code(Context& ctx, const HeadShape& shape, const T* x, const T* codebook,
                  int32_t* code) {
  const int64_t tiles = tiles_of(shape.rows);
  if (shape.batch_heads * shape.rows == 0) return;
  launch_blocks(ctx, grid_of(shape.batch_heads * tiles), nearest_code_kernel<T>, shape, tiles, x,
                codebook, code);
}

template <typename T>
void one_hot_logs(Context& ctx, const int32_t* code, T* y, int64_t R, int64_t F) {
  for_each_column(ctx, R, F, [=] __device__(int64_t r, int64_t f) {
    y[r * F + f] = f == code[r] % F ? T(0) : kNothing<T>;
  });
}

LINEA_REAL_KERNEL_TABLE(CodebookKernels, .mixture_logs = mixture_logs<T>,
                        .mixture_logs_backward = mixture_logs_backward<T>,
                        .add_to_heads = add_to_heads<T>, .nearest_code = nearest_code<T>,
                        .one_hot_logs = one_hot_logs<T>)

}  // namespace linea::cuda
