// One position of the delta rule, and stand-alone triangular systems. Formulas:
// tensor/cpu/delta.cpp.
#include "cuda/delta.h"

namespace linea::cuda {
namespace {

constexpr int kColumns = 32, kShares = kBlockThreads / kColumns;  // of the block of a step

// S = a S, S += k^T beta (v - k S), y = q S; a = 1 without decays
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    step_kernel(const T* q, const T* k, const T* v, const T* beta, const T* log_decay, T* state,
                T* y, int64_t F, int64_t M) {
  __shared__ T part[kShares][kColumns];
  const int share = static_cast<int>(threadIdx.x) / kColumns,
            column = static_cast<int>(threadIdx.x) % kColumns;
  const int64_t bh = blockIdx.x, m = static_cast<int64_t>(blockIdx.y) * kColumns + column;
  T* S = state + bh * F * M + m;
  if (log_decay != nullptr) {
    const T decay = exp_of(log_decay[bh]);
    for (int64_t f = share; m < M && f < F; f += kShares) S[f * M] *= decay;
  }
  const auto over_shares = [&](T own) {
    part[share][column] = own;
    __syncthreads();
    T all = part[0][column];
    for (int other = 1; other < kShares; ++other) all += part[other][column];
    __syncthreads();
    return all;
  };
  T sum = 0;
  for (int64_t f = share; m < M && f < F; f += kShares) sum += k[bh * F + f] * S[f * M];
  const T read = over_shares(sum), written = m < M ? beta[bh] * (v[bh * M + m] - read) : T(0);
  sum = 0;
  for (int64_t f = share; m < M && f < F; f += kShares) {
    const T now = S[f * M] + k[bh * F + f] * written;
    S[f * M] = now;
    sum += q[bh * F + f] * now;
  }
  sum = over_shares(sum);
  if (share == 0 && m < M) y[bh * M + m] = sum;
}

// Rows of x, 64 at a time; one block per (batch, head) and 64 columns.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    solve_kernel(const T* l, const T* e, T* x, bool transpose, int64_t N, int64_t M) {
  DeltaShared<T>& shared = DeltaShared<T>::take(FloatProducts::exact);
  const int64_t bh = blockIdx.x, first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t tiles = (N + kTile - 1) / kTile;
  const T *lower = l + bh * N * N, *right = e + bh * N * M;
  T* const known = x + bh * N * M;
  const auto at = [&](int64_t i, int64_t j) { return i < N && j < i ? lower[i * N + j] : T(0); };
  for (int64_t n = 0; n < tiles; ++n) {
    const int64_t first = (transpose ? tiles - 1 - n : n) * kTile,
                  before = transpose ? first + kTile : 0;
    const int count = within_tile(N - first);
    Sums<T> sum;
    const auto row = by_columns(matrix_rows(known + before * M, N - before, M), first_m);
    if (transpose)
      add_product<Along::tile, Along::tile>(
          sum, N - before, [&](int i, int64_t j) { return at(before + j, first + i); }, row,
          shared.panels);
    else
      add_product<Along::terms, Along::tile>(
          sum, first, [&](int i, int64_t j) { return at(first + i, j); }, row, shared.panels);
    Sums<T>::each([&](int own, int i, int m) {
      const bool there = i < count && first_m + m < M;
      shared.columns[i][m] = there ? right[(first + i) * M + first_m + m] - sum[own] : T(0);
      shared.pairs[i][m] = m < i ? at(first + i, first + m) : T(0);
    });
    solve(transpose, count, shared.pairs, shared.columns);
    Sums<T>::each([&](int, int i, int m) {
      if (i < count && first_m + m < M) known[(first + i) * M + first_m + m] = shared.columns[i][m];
    });
    __syncthreads();
  }
}

}  // namespace

template <typename T>
void delta_step(Context& ctx, const ChunkShape& shape, const DeltaInput<T>& in, T* state, T* y) {
  if (!shape.corrects || shape.channel_decays) refuse_kernel("decay");
  const int64_t BH = shape.batch_heads, F = shape.features, M = shape.values;
  if (BH == 0 || M == 0) return;
  launch_blocks(ctx, grid_of(BH, (M + kColumns - 1) / kColumns), step_kernel<T>, in.q, in.k,
                in.v.data, in.beta.data, in.log_decay.data, state, y, F, M);
}

template <typename T>
void solve_unit_lower(Context& ctx, const T* l, const T* e, T* x, bool transpose, int64_t BH,
                      int64_t N, int64_t M) {
  if (BH == 0 || N == 0 || M == 0) return;
  launch_with<solve_kernel<T>, DeltaShared<T>>(ctx, grid_of(BH, tiles_of(M)), l, e, x, transpose, N,
                                               M);
}

LINEA_REAL_KERNEL_TABLE(DeltaStepKernels, .delta_step = delta_step<T>,
                        .solve_unit_lower = solve_unit_lower<T>)

}  // namespace linea::cuda
