// Forward pass of the sum rule over a segment. Structure: cuda/chunk.h; formulas:
// tensor/cpu/chunk.h.
#include "cuda/chunk_sweep.h"
#include "cuda/walk.h"

namespace linea::cuda {
namespace {

// log a_ij (relative to q_i's largest feature) by definition, log sum_f exp(...).
template <typename T>
__device__ Accumulator<T> log_score(const Rows<NumericMode::logs, T>& q,
                                    const Rows<NumericMode::logs, T>& k, int64_t F, int i, int j,
                                    Accumulator<T> offset) {
  using A = Accumulator<T>;
  A max = kNothing<A>, sum = 0;
  for (int64_t f = 0; f < F; ++f) max = larger(max, q.given(i, f) + k.given(j, f));
  if (max == kNothing<A>) return max;
  for (int64_t f = 0; f < F; ++f) sum += exp_of(q.given(i, f) + k.given(j, f) - max);
  return max + std::log(sum) - q.top[i] + (offset - k.top[j]);
}

// The weights of row i inside a chunk in log space: exp(log a_ij - m), m the maximum. Returns their
// sum over the warp's lanes, without the state's contribution; on entry, m is the state's scale.
template <typename T, typename A>
__device__ A weigh_by_logs(const Rows<NumericMode::logs, T>& q, const Rows<NumericMode::logs, T>& k,
                           int64_t F, int i, int seen, const A* offset, A* weights, A& m) {
  const int lane = own_lane();
  A max = m;
  for (int j = lane; j < seen; j += kWarp)
    max = larger(max, weights[j] = log_score(q, k, F, i, j, offset[j]));
  max = warp_max(max);
  m = max == kNothing<A> ? A(0) : max;
  A sum = 0;
  for (int j = lane; j < seen; j += kWarp) sum += weights[j] = factor(weights[j], m);
  return warp_sum(sum);
}

template <NumericMode kMode, typename T>
__global__ void __launch_bounds__(kBlockThreads)
    read_chunk(ChunkShape shape, Group group, ChunkInput<T> in, KeyTable<Accumulator<T>> keys,
               const Accumulator<T>* query_top, States<Accumulator<T>> states, HeadRows<T> y,
               ChunkRows<Accumulator<T>> saved) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> weights;
  multiply_as(shape.products, panels);
  // of each row: largest log with the state's scales, state's scale, partial sum of d, m, 1/d
  __shared__ A past_top[kTile], past_scale[kTile], denominator[kTile], row_scale[kTile],
      inverse[kTile];
  Chunk chunk = chunk_at(shape, group, blockIdx.x);
  if (chunk.rows == 0) return;
  if (in.k.data == nullptr) chunk.keys = 0;
  const int64_t F = shape.features, M = shape.values, entry = chunk.entry;
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  const int warp = own_warp(), lane = own_lane();
  const Rows<kMode, T> q = chunk_rows<kMode>(shape, in.q, chunk, chunk.rows, query_top);
  const StateAt<A> past = state_at(states, shape, group, chunk);
  const A* offset = kMode == NumericMode::plain ? nullptr : keys.offset + entry;

  // For logs, the features that read the state include the state's logs.
  const auto past_feature = [&](int i, int64_t f) {
    return kMode == NumericMode::logs ? factor(q.given(i, f) + past.scale[f], past_top[i])
                                      : q.at(i, f);
  };
  for (int i = warp; i < kTile; i += kBlockWarps) {
    if (i >= chunk.rows || past.empty) {
      if (lane == 0) denominator[i] = 0, past_scale[i] = kNothing<A>;
      continue;
    }
    A top = kNothing<A>, sum = 0;
    if (kMode == NumericMode::logs) {
      for (int64_t f = lane; f < F; f += kWarp) top = larger(top, q.given(i, f) + past.scale[f]);
      top = warp_max(top);
      if (lane == 0) past_top[i] = top;
      __syncwarp();
    }
    for (int64_t f = lane; f < F; f += kWarp) sum += past_feature(i, f) * past.key_sum[f];
    sum = warp_sum(sum);
    if (lane > 0) continue;
    denominator[i] = sum;
    if (kMode != NumericMode::plain)
      past_scale[i] = kMode == NumericMode::logs ? top - q.top[i] : F > 0 ? past.scale[0] : A(0);
  }
  Sums<A> sums;
  if (!past.empty)
    add_product<Along::terms, Along::tile>(
        sums, F, [&](int i, int64_t f) { return i < chunk.rows ? past_feature(i, f) : A(0); },
        by_columns(past.state, first_m), panels);

  const Rows<kMode, T> k = chunk_rows<kMode>(shape, in.k, chunk, chunk.keys, keys.top);
  Sums<A> scores;
  if (chunk.keys > 0)
    add_product<Along::terms, Along::terms>(scores, F, by_rows(q), by_rows(k), panels);
  __syncthreads();
  if (threadIdx.x < kTile && kMode != NumericMode::plain) {
    const int i = static_cast<int>(threadIdx.x);
    const A m = larger(chunk.keys > 0 ? keys.max[entry + i] : kNothing<A>, past_scale[i]);
    row_scale[i] = m == kNothing<A> ? A(0) : m;  // no key is visible: the row is 0
  }
  __syncthreads();
  Sums<A>::each([&](int e, int i, int j) {
    const bool sees = j <= i && j < chunk.keys && i < chunk.rows;
    A weight = sees ? scores[e] : A(0);
    if (kMode != NumericMode::plain && sees) weight *= factor(offset[j], row_scale[i]);
    weights[i][j] = weight;
  });
  __syncthreads();
  for (int i = warp; i < chunk.rows; i += kBlockWarps) {
    A m = kMode == NumericMode::plain ? A(0) : row_scale[i];
    A inside = warp_sum(weights[i][lane] + weights[i][lane + kWarp]);
    const auto whole = [&] {
      return kMode == NumericMode::plain ? denominator[i] + inside
                                         : factor(past_scale[i], m) * denominator[i] + inside;
    };
    if constexpr (kMode == NumericMode::logs) {
      const int count = i + 1 < chunk.keys ? i + 1 : chunk.keys;
      if (count > 0 && whole() < kMinTrustedDenominator<A>) {
        m = past_scale[i];
        inside = weigh_by_logs(q, k, F, i, count, offset, weights[i], m);
      }
    }
    const A d = whole();
    __syncwarp();
    if (lane == 0) denominator[i] = d, row_scale[i] = m;
  }
  __syncthreads();
  if (kMode != NumericMode::plain)
    Sums<A>::each([&](int e, int i, int) {
      if (i < chunk.rows) sums[e] *= factor(past_scale[i], row_scale[i]);
    });
  const TileRows<T> v = tile_rows(in.v, chunk.bh, chunk.first, chunk.keys, M);
  add_product<Along::terms, Along::tile>(sums, chunk.keys, by_rows(weights), by_columns(v, first_m),
                                         panels);
  if (static_cast<int>(threadIdx.x) < chunk.rows) {
    const int i = static_cast<int>(threadIdx.x);
    inverse[i] = reciprocal_or_zero(denominator[i]);
    if (blockIdx.y == 0) {
      saved.denominator.at(chunk.bh)[chunk.first + i] = denominator[i];
      if (kMode != NumericMode::plain) saved.scale.at(chunk.bh)[chunk.first + i] = row_scale[i];
    }
  }
  __syncthreads();
  T* to = y.at(chunk.bh, chunk.first);
  Sums<A>::each([&](int e, int i, int col) {
    const int64_t m = first_m + col;
    if (i < chunk.rows && m < M) to[i * y.row + m] = T(sums[e] * inverse[i]);
  });
}

}  // namespace

template <typename T>
void chunk_forward(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                   const ChunkState<Accumulator<T>>& running, HeadRows<T> y,
                   const ChunkRows<Accumulator<T>>& saved) {
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (walk_forward(ctx, shape, in, running, y, saved)) return;
  with_mode<T>(shape, running.scale, [&](auto mode) {
    constexpr NumericMode kMode = mode;
    Sweep<T> sweep(ctx, shape, kMode != NumericMode::plain, false);
    sweep_keys<kMode>(ctx, shape, in, running, sweep, [&](const Group& group, const auto& states) {
      const int64_t slots = shape.batch_heads * group.chunks;
      if (kMode == NumericMode::logs)
        for_each_row(ctx, slots,
                     MakeQueries<kMode, T>{shape, group, in.q, {}, {}, {}, sweep.queries});
      launch_blocks(ctx, grid_of(slots, tiles_of(shape.values)), read_chunk<kMode, T>, shape, group,
                    in, sweep.keys, sweep.queries.top, states, y, saved);
    });
  });
}

LINEA_KERNEL_TABLE(ChunkForwardKernels, .chunk_forward = chunk_forward<T>)

}  // namespace linea::cuda
