// One position of the delta rule, and stand-alone triangular systems. Formulas:
// tensor/cpu/delta.cpp.
#include "cuda/delta.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {
namespace {

constexpr int kColumns = 32, kShares = kBlockThreads / kColumns;  // of the block of a step

// S = a S, S += k^T beta (v - k S), y = q S; a = 1 without decays
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    step_kernel(const T* q, const T* k, const T* v, const T* beta, const T* log_decay,
                Accumulator<T>* state, T* y, int64_t F, int64_t M) {
  using A = Accumulator<T>;
  __shared__ A part[kShares][kColumns];
  const int64_t bh = blockIdx.x,
                m = static_cast<int64_t>(blockIdx.y) * kColumns + threadIdx.x % kColumns;
  const int share = static_cast<int>(threadIdx.x) / kColumns,
            column = static_cast<int>(threadIdx.x) % kColumns;
  A* S = state + bh * F * M + m;
  if (log_decay != nullptr) {
    const A decay = exp_of(A(log_decay[bh]));
    for (int64_t f = share; m < M && f < F; f += kShares) S[f * M] *= decay;
  }
  A sum = 0;
  for (int64_t f = share; m < M && f < F; f += kShares) sum += A(k[bh * F + f]) * S[f * M];
  part[share][column] = sum;
  __syncthreads();
  A read = part[0][column];
  for (int other = 1; other < kShares; ++other) read += part[other][column];
  __syncthreads();
  const A written = m < M ? A(beta[bh]) * (A(v[bh * M + m]) - read) : A(0);
  sum = 0;
  for (int64_t f = share; m < M && f < F; f += kShares) {
    const A now = S[f * M] + A(k[bh * F + f]) * written;
    S[f * M] = now;
    sum += A(q[bh * F + f]) * now;
  }
  part[share][column] = sum;
  __syncthreads();
  if (share > 0 || m >= M) return;
  for (int other = 1; other < kShares; ++other) sum += part[other][column];
  y[bh * M + m] = T(sum);
}

// Rows of x, 64 at a time; one block per (batch, head) and 64 columns.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    solve_kernel(const T* l, const T* e, T* x, bool transpose, int64_t N, int64_t M, int64_t tiles,
                 Accumulator<T>* solved) {
  using A = Accumulator<T>;
  const Shared<A> shared = Shared<A>::take(FloatProducts::exact);
  const int64_t bh = blockIdx.x, first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  const T* lower = l + bh * N * N;
  A* known = solved + bh * N * M;  // the solution in the accumulator type, before rounding
  const auto at = [&](int64_t i, int64_t j) { return i < N && j < i ? A(lower[i * N + j]) : A(0); };
  for (int64_t n = 0; n < tiles; ++n) {
    const int64_t first = (transpose ? tiles - 1 - n : n) * kTile,
                  before = transpose ? first + kTile : 0;
    const int count = static_cast<int>(N - first < kTile ? N - first : kTile);
    Sums<A> sum;
    const auto row = [&](int m, int64_t j) {
      return first_m + m < M ? known[(before + j) * M + first_m + m] : A(0);
    };
    if (transpose)
      add_product<Along::tile, Along::tile>(
          sum, N - before, [&](int i, int64_t j) { return at(before + j, first + i); }, row,
          *shared.panels);
    else
      add_product<Along::terms, Along::tile>(
          sum, first, [&](int i, int64_t j) { return at(first + i, j); }, row, *shared.panels);
    Sums<A>::each([&](int own, int i, int m) {
      const bool there = i < count && first_m + m < M;
      shared.columns[i][m] = there ? A(e[(bh * N + first + i) * M + first_m + m]) - sum[own] : A(0);
    });
    for (int i = static_cast<int>(threadIdx.x) / kTile; i < kTile; i += kBlockThreads / kTile) {
      const int j = static_cast<int>(threadIdx.x) % kTile;
      shared.pairs[i][j] = j < i ? at(first + i, first + j) : A(0);
    }
    solve(transpose, count, shared.pairs, shared.columns);
    Sums<A>::each([&](int, int i, int m) {
      if (i >= count || first_m + m >= M) return;
      known[(first + i) * M + first_m + m] = shared.columns[i][m];
      x[(bh * N + first + i) * M + first_m + m] = T(shared.columns[i][m]);
    });
    __syncthreads();
  }
}

}  // namespace

template <typename T>
void delta_step(Context& ctx, const ChunkShape& shape, const DeltaInput<T>& in,
                Accumulator<T>* state, T* y) {
  if (!shape.corrects || shape.channel_decays) refuse_kernel("decay");
  const int64_t BH = shape.batch_heads, F = shape.features, M = shape.values;
  if (BH == 0 || M == 0) return;
  launch(step_kernel<T>, dim3(blocks(BH), blocks((M + kColumns - 1) / kColumns)),
         dim3(kBlockThreads), 0, stream(ctx), in.q, in.k, in.v.data, in.beta.data,
         in.log_decay.data, state, y, F, M);
}

template <typename T>
void solve_unit_lower(Context& ctx, const T* l, const T* e, T* x, bool transpose, int64_t BH,
                      int64_t N, int64_t M) {
  using A = Accumulator<T>;
  if (BH == 0 || N == 0 || M == 0) return;
  const Workspace<A> solved(ctx, BH * N * M);
  launch_large<A>(ctx, solve_kernel<T>, dim3(blocks(BH), blocks(tiles_of(M))), l, e, x, transpose,
                  N, M, tiles_of(N), solved.data());
}

LINEA_REAL_KERNEL_TABLE(DeltaStepKernels, .delta_step = delta_step<T>,
                        .solve_unit_lower = solve_unit_lower<T>)

}  // namespace linea::cuda
