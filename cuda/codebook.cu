// Features computed with a codebook c [H,F,D] (nn/attention/soft_vq.cpp, vq.cpp), except for the
// matrix products.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// The first (batch, head) of a head; its others follow at distances of `heads`.
LINEA_HOST_DEVICE inline int64_t first_bh_of(const HeadShape& shape, int64_t head) {
  return (head - shape.first_bh % shape.heads + shape.heads) % shape.heads;
}

// Compares a tile of kTile rows with kTile codes at a time, kDepth elements of each in shared
// memory; a thread has 4 x 4 distances, with its rows and codes 16 apart. Every distance is summed
// over d in the same order, independent of the other rows and codes.
constexpr int kTile = 64, kDepth = 16, kSide = 16, kEach = kTile / kSide;

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    nearest_code_kernel(HeadShape shape, const T* x, const T* codebook, int32_t* code) {
  using A = Accumulator<T>;
  static_assert(kSide * kSide == kBlockThreads && kDepth == kSide);
  __shared__ A points[kDepth][kTile + 1], codes[kDepth][kTile + 1];
  const int tx = static_cast<int>(threadIdx.x) % kSide, ty = static_cast<int>(threadIdx.x) / kSide;
  const int64_t F = shape.features, D = shape.key_size, tiles = (shape.rows + kTile - 1) / kTile;
  for (int64_t item = blockIdx.x; item < shape.batch_heads * tiles; item += gridDim.x) {
    const int64_t bh = item / tiles, first_row = item % tiles * kTile;
    const T* rows = x + bh * shape.rows * D;
    const int64_t first_of_head = shape.head(bh) * F;
    const T* of_head = codebook + first_of_head * D;
    A min[kEach];
    int best[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      min[i] = std::numeric_limits<A>::infinity();
      best[i] = 0;
    }
    for (int64_t first_code = 0; first_code < F; first_code += kTile) {
      A distance[kEach][kEach] = {};
      for (int64_t first_d = 0; first_d < D; first_d += kDepth) {
        const int64_t d = first_d + tx;
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
          const int64_t row = first_row + ty + k * kSide, f = first_code + ty + k * kSide;
          points[tx][ty + k * kSide] = row < shape.rows && d < D ? A(rows[row * D + d]) : A(0);
          codes[tx][ty + k * kSide] = f < F && d < D ? A(of_head[f * D + d]) : A(0);
        }
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < kDepth; ++depth) {
          A c[kEach];
#pragma unroll
          for (int j = 0; j < kEach; ++j) c[j] = codes[depth][tx + j * kSide];
#pragma unroll
          for (int i = 0; i < kEach; ++i) {
            const A point = points[depth][ty + i * kSide];
#pragma unroll
            for (int j = 0; j < kEach; ++j) distance[i][j] += (point - c[j]) * (point - c[j]);
          }
        }
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const int64_t f = first_code + tx + j * kSide;
          if (f >= F || !(distance[i][j] < min[i])) continue;
          min[i] = distance[i][j];
          best[i] = static_cast<int>(f);
        }
    }
    // Reduces over the 16 neighboring threads with the same rows; ties go to the first code.
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int apart = kSide / 2; apart > 0; apart /= 2) {
        const A other = __shfl_xor_sync(kWholeWarp, min[i], apart);
        const int other_best = __shfl_xor_sync(kWholeWarp, best[i], apart);
        const bool better = other < min[i] || (other == min[i] && other_best < best[i]);
        min[i] = better ? other : min[i];
        best[i] = better ? other_best : best[i];
      }
      const int64_t row = first_row + ty + i * kSide;
      if (tx == 0 && row < shape.rows)
        code[bh * shape.rows + row] = static_cast<int32_t>(first_of_head + best[i]);
    }
  }
}

}  // namespace

// u_f = k.c_f is replaced by b_f = g_f - log sum exp g, g_f = (u_f - |c_f|^2 / 2) / t
template <typename T>
void mixture_logs(Context& ctx, const HeadShape& shape, const T* codebook, const T* t, T* u) {
  using A = Accumulator<T>;
  const int64_t F = shape.features, D = shape.key_size;
  const Workspace<A> workspace(ctx, shape.heads * F);
  A* const halves = workspace.data();
  for_each_team(ctx, shape.heads * F, D, [=] __device__(auto team, int64_t f) {
    A norm = 0;
    for (int64_t d = team.rank(); d < D; d += team.kThreads)
      norm += A(codebook[f * D + d]) * A(codebook[f * D + d]);
    norm = team.sum(norm);
    if (team.rank() == 0) halves[f] = norm / A(2);
  });
  for_each_team(ctx, shape.batch_heads * shape.rows, F, [=] __device__(auto team, int64_t row) {
    T* const logs = u + row * F;
    const A* of_head = halves + shape.head(row / shape.rows) * F;
    const A inverse = A(1) / A(*t);
    A max = kNothing<A>, sum = 0;
    for (int64_t f = team.rank(); f < F; f += team.kThreads)
      max = Largest{}(max, (A(logs[f]) - of_head[f]) * inverse);
    max = team.max(max);
    for (int64_t f = team.rank(); f < F; f += team.kThreads)
      sum += exp_of((A(logs[f]) - of_head[f]) * inverse - max);
    const A all = max + std::log(team.sum(sum));
    for (int64_t f = team.rank(); f < F; f += team.kThreads)
      logs[f] = T((A(logs[f]) - of_head[f]) * inverse - all);
  });
}

// dg_f = db_f - exp(b_f) sum db;  du = dg / t;  dt = -sum_f dg_f g_f / t = -sum_f du_f b_f, because
// sum dg = 0
template <typename T>
void mixture_logs_backward(Context& ctx, const HeadShape& shape, const T* t, const T* logs,
                           T* dlogs, T* dt) {
  using A = Accumulator<T>;
  const int64_t F = shape.features, rows = shape.rows;
  const Workspace<A> workspace(ctx, shape.batch_heads * rows);
  A* const of_row = workspace.data();
  for_each_team(ctx, shape.batch_heads * rows, F, [=] __device__(auto team, int64_t row) {
    const T* b = logs + row * F;
    T* grad = dlogs + row * F;
    const A inverse = A(1) / A(*t);
    A total = 0, along = 0;
    for (int64_t f = team.rank(); f < F; f += team.kThreads) total += A(grad[f]);
    total = team.sum(total);
    for (int64_t f = team.rank(); f < F; f += team.kThreads) {
      const A log = A(b[f]), du = (A(grad[f]) - exp_of(log) * total) * inverse;
      grad[f] = T(du);
      along += du == A(0) ? A(0) : du * log;
    }
    along = team.sum(along);
    if (team.rank() == 0) of_row[row] = along;
  });
  for_each_row(ctx, shape.batch_heads, [=] __device__(int64_t bh) {
    A all = 0;
    for (int64_t row = threadIdx.x; row < rows; row += kBlockThreads)
      all += of_row[bh * rows + row];
    all = block_sum(all);
    if (threadIdx.x == 0) dt[bh] = T(A(dt[bh]) - all);
  });
}

template <typename T>
void add_to_heads(Context& ctx, const HeadShape& shape, const T* part, const T* du,
                  const T* codebook, T* dcodebook) {
  using A = Accumulator<T>;
  const int64_t F = shape.features, D = shape.key_size, rows = shape.rows;
  const Workspace<A> workspace(ctx, du == nullptr ? 1 : shape.batch_heads * F);
  A* const sums = du == nullptr ? nullptr : workspace.data();
  if (du != nullptr)
    sum_columns_of(
        ctx, {shape.batch_heads, rows, F}, du,
        [=] __device__(int64_t bh, int64_t f, const A* total) { sums[bh * F + f] = total[0]; });
  for_each_column(ctx, shape.heads * F, D, [=] __device__(int64_t row, int64_t d) {
    const int64_t head = row / F, f = row % F;
    const A c = sums == nullptr ? A(0) : A(codebook[row * D + d]);
    A total = A(dcodebook[row * D + d]);
    for (int64_t bh = first_bh_of(shape, head); bh < shape.batch_heads; bh += shape.heads) {
      total += A(part[(bh * F + f) * D + d]);
      if (sums != nullptr) total -= sums[bh * F + f] * c;
    }
    dcodebook[row * D + d] = T(total);
  });
}

template <typename T>
void nearest_code(Context& ctx, const HeadShape& shape, const T* x, const T* codebook,
                  int32_t* code) {
  const int64_t blocks = shape.batch_heads * ((shape.rows + kTile - 1) / kTile);
  if (blocks == 0) return;
  launch(nearest_code_kernel<T>, grid_of_tiles(blocks), dim3(kBlockThreads), 0, stream(ctx), shape,
         x, codebook, code);
}

template <typename T>
void one_hot_logs(Context& ctx, const int32_t* code, T* y, int64_t R, int64_t F) {
  using A = Accumulator<T>;
  for_each_column(ctx, R, F, [=] __device__(int64_t r, int64_t f) {
    y[r * F + f] = T(f == code[r] % F ? A(0) : kNothing<A>);
  });
}

LINEA_REAL_KERNEL_TABLE(CodebookKernels, .mixture_logs = mixture_logs<T>,
                        .mixture_logs_backward = mixture_logs_backward<T>,
                        .add_to_heads = add_to_heads<T>, .nearest_code = nearest_code<T>,
                        .one_hot_logs = one_hot_logs<T>)

}  // namespace linea::cuda
