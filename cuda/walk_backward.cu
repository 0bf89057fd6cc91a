// dq, dk and dv of a segment by walks over its chunks, forward and backward. Formulas: cuda/walk.h.
#include "cuda/walk.h"

namespace linea::cuda {
namespace {

// e = -(dy . y) / d of the rows of y [S,D]; d null: 1. kD / 8 lanes take a row, and a block kRowsOfBlock rows
// of one (batch, head).
inline constexpr int kRowsOfBlock = 256;

template <int kD>
__global__ void __launch_bounds__(kBlockThreads)
    prepare_walk(int64_t length, int blocks, HeadRows<const BFloat16> y,
                 HeadRows<const BFloat16> dy, Strided<const float> denominator, Strided<float> e) {
  constexpr int kLanes = kD / 8, kAtOnce = kBlockThreads / kLanes;
  const int bh = static_cast<int>(blockIdx.x) / blocks;
  const int64_t first = int64_t{static_cast<int>(blockIdx.x) % blocks} * kRowsOfBlock;
  const int left = static_cast<int>(length - first < kRowsOfBlock ? length - first : kRowsOfBlock);
  const int part = static_cast<int>(threadIdx.x) % kLanes;
  const BFloat16 *const y0 = y.at(bh, first) + part * 8, *const dy0 = dy.at(bh, first) + part * 8;
  const float* const d0 = denominator.data == nullptr ? nullptr : denominator.at(bh) + first;
  float* const e0 = e.at(bh) + first;
#pragma unroll 4
  for (int n = 0; n < kRowsOfBlock; n += kAtOnce) {
    const int row = n + static_cast<int>(threadIdx.x) / kLanes;
    float sum = 0;
    const auto add = [&](float of_y, float of_dy) { sum += of_y * of_dy; };
    if (row < left) each_of_group<8>(add, y0 + row * y.row, dy0 + row * dy.row);
    sum = warp_reduce(sum, Sum{}, kLanes);
    if (row < left && part == 0)
      e0[row] = -sum * (d0 == nullptr ? 1.0f : reciprocal_or_zero(d0[row]));
  }
}

// A factor that is needed late in a chunk has one panel, so that all fit an A100: it is copied
// while the first part of the chunk is computed.
template <int kD>
struct QueryShared {
  struct Stage {
    Panel<kTile, kD> k, v, n;
    float denominator[kTile], e[kTile];
  } stage[2];
  Panel<kTile, kD> q;
  Panel<kD, kD> state;
  float key_sum[kD];
  Stretch stretch;
  const BFloat16 *q0, *k0, *v0, *dy0;  // the first rows
  BFloat16* dq0;
};

template <int kD>
__global__ void __launch_bounds__(kBlockThreads, kWalksAtOnce<kD>)
    query_walk(ChunkShape shape, Stretches cut, ChunkInput<BFloat16> in,
               HeadRows<const BFloat16> dy, Strided<const float> denominator,
               Strided<const float> grad_d, WalkStates ends, HeadRows<BFloat16> dq) {
  SharedMemory memory;
  QueryShared<kD>& shared = *memory.take<QueryShared<kD>>(1);
  using Own = Band<kD>;
  const Stretch& stretch = publish_stretch(shape, cut, shared.stretch);
  publish_rows(stretch, in.q, shared.q0, in.k, shared.k0, in.v, shared.v0, dy, shared.dy0, dq,
               shared.dq0);
  __syncthreads();
  const int lane = own_lane(), row = Own::row(), col = Own::col();

  const auto bring = [&](int chunk) {
    if (chunk < stretch.end) {
      const int first = chunk * kTile;
      auto& to = shared.stage[chunk & 1];
      const int rows = stretch.rows(chunk), keys = stretch.keys(chunk);
      to.k.bring(shared.k0, stride_of(in.k), chunk * kTile, keys);
      to.v.bring(shared.v0, stride_of(in.v), chunk * kTile, keys);
      to.n.bring(shared.dy0, stride_of(dy), chunk * kTile, rows);
      bring_numbers(to.denominator, denominator.at(stretch.bh) + first, rows);
      bring_numbers(to.e, grad_d.at(stretch.bh) + first, rows);
    }
    __pipeline_commit();
  };
  WalkState<kD> state;
  bring(stretch.first);
  state.load(ends);
  for (int chunk = stretch.first; chunk < stretch.end; ++chunk) {
    const int rows = stretch.rows(chunk);
    shared.q.bring(shared.q0, stride_of(in.q), chunk * kTile, rows);
    __pipeline_commit();
    bring(chunk + 1);
    auto& now = shared.stage[chunk & 1];
    state.publish(shared.state, shared.key_sum);
    __pipeline_wait_prior(2);
    __syncthreads();
    make_features(now.k, shape.feature, stretch.keys(chunk));
    divide_rows(now.n, now.denominator, rows);
    __syncthreads();

    const float own_e[2] = {now.e[row + lane / 4], now.e[row + lane / 4 + 8]};
    BandSums<kTile> grads = {};  // G
    BandSums<Own::kColumns> sums;
    product<kD, Along::terms, Along::terms>(grads, now.n, row, now.v);
    each_sum(grads, [&](float& grad, int lower, int i, int j) {
      grad = j > row + i ? 0 : grad + own_e[lower];
    });
    each_sum(sums, [&](float& sum, int lower, int, int f) {
      sum = own_e[lower] * shared.key_sum[col + f];
    });
    product_from_registers<Along::tile>(sums, grads, now.k, col);
    product<kD, Along::terms, Along::terms>(sums, now.n, row, shared.state, col);

    __pipeline_wait_prior(1);
    __syncthreads();
    with_feature_of_walk(shape.feature, [&](auto feature) {
      using F = decltype(feature);
      write_rows(shared.dq0 + int64_t{chunk * kTile} * stride_of(dq) + col, stride_of(dq), sums,
                 row, rows, [&](float& left, float& right, int, int i, int f) {
                   const uint32_t q = shared.q.pair(i, col + f);
                   left *= F::derivative_at(walk_feature<F>(lower_bf16(q)));
                   right *= F::derivative_at(walk_feature<F>(upper_bf16(q)));
                 });
    });
    state.add(now.k, now.v);
    __syncthreads();
  }
  state.store(ends);
}

template <int kD>
struct KeyShared {
  struct Stage {
    Panel<kTile, kD> q, k, n;
    float denominator[kTile], e[kTile];
  } stage[2];
  Panel<kTile, kD> v;
  Panel<kD, kD> state;
  float key_sum[kD];
  Stretch stretch;
  const BFloat16 *q0, *k0, *v0, *dy0;  // the first rows
  BFloat16 *dk0, *dv0;
};

template <int kD>
__global__ void __launch_bounds__(kBlockThreads, kWalksAtOnce<kD>)
    key_walk(ChunkShape shape, Stretches cut, ChunkInput<BFloat16> in, HeadRows<const BFloat16> dy,
             Strided<const float> denominator, Strided<const float> grad_d, WalkStates ends,
             HeadRows<BFloat16> dk, HeadRows<BFloat16> dv) {
  SharedMemory memory;
  KeyShared<kD>& shared = *memory.take<KeyShared<kD>>(1);
  using Own = Band<kD>;
  const Stretch& stretch = publish_stretch(shape, cut, shared.stretch);
  publish_rows(stretch, in.q, shared.q0, in.k, shared.k0, in.v, shared.v0, dy, shared.dy0, dk,
               shared.dk0, dv, shared.dv0);
  __syncthreads();
  const int row = Own::row(), col = Own::col();

  const auto bring = [&](int chunk) {
    if (chunk >= stretch.first) {
      const int first = chunk * kTile;
      auto& to = shared.stage[chunk & 1];
      const int rows = stretch.queries(chunk);
      to.q.bring(shared.q0, stride_of(in.q), chunk * kTile, rows);
      to.k.bring(shared.k0, stride_of(in.k), chunk * kTile, stretch.keys(chunk));
      to.n.bring(shared.dy0, stride_of(dy), chunk * kTile, rows);
      bring_numbers(to.denominator, denominator.at(stretch.bh) + first, rows);
      bring_numbers(to.e, grad_d.at(stretch.bh) + first, rows);
    }
    __pipeline_commit();
  };
  WalkState<kD> state;
  bring(stretch.end - 1);
  state.load(ends);
  for (int chunk = stretch.end - 1; chunk >= stretch.first; --chunk) {
    const int rows = stretch.rows(chunk), queries = stretch.queries(chunk),
              keys = stretch.keys(chunk);
    shared.v.bring(shared.v0, stride_of(in.v), chunk * kTile, keys);
    __pipeline_commit();
    bring(chunk - 1);
    auto& now = shared.stage[chunk & 1];
    state.publish(shared.state, shared.key_sum);
    __pipeline_wait_prior(2);
    __syncthreads();
    make_features(now.q, shape.feature, queries);
    make_features(now.k, shape.feature, keys);
    divide_rows(now.n, now.denominator, queries);
    __syncthreads();

    // Rows of these products are keys j, columns of the squares are queries i.
    {
      BandSums<kTile> weights = {};  // A^T
      BandSums<Own::kColumns> sums = {};
      product<kD, Along::terms, Along::terms>(weights, now.k, row, now.q);
      each_sum(weights, [&](float& weight, int, int j, int i) {
        if (i < row + j) weight = 0;
      });
      product_from_registers<Along::tile>(sums, weights, now.n, col);
      product<kD, Along::terms, Along::tile>(sums, now.k, row, shared.state, col);
      write_rows(shared.dv0 + int64_t{chunk * kTile} * stride_of(dv) + col, stride_of(dv), sums,
                 row, rows, [](float&, float&, int, int, int) {});
    }
    __pipeline_wait_prior(1);
    __syncthreads();
    {
      BandSums<kTile> grads = {};  // G^T
      BandSums<Own::kColumns> sums;
      product<kD, Along::terms, Along::terms>(grads, shared.v, row, now.n);
      each_sum(grads,
               [&](float& grad, int, int j, int i) { grad = i < row + j ? 0 : grad + now.e[i]; });
      each_sum(sums, [&](float& sum, int, int, int f) { sum = shared.key_sum[col + f]; });
      product_from_registers<Along::tile>(sums, grads, now.q, col);
      product<kD, Along::terms, Along::terms>(sums, shared.v, row, shared.state, col);
      with_feature_of_walk(shape.feature, [&](auto feature) {
        using F = decltype(feature);
        write_rows(shared.dk0 + int64_t{chunk * kTile} * stride_of(dk) + col, stride_of(dk), sums,
                   row, rows, [&](float& left, float& right, int, int j, int f) {
                     const uint32_t phi = now.k.pair(j, col + f);
                     const bool exists = j < keys;
                     left = exists ? left * F::derivative_at(lower_bf16(phi)) : 0;
                     right = exists ? right * F::derivative_at(upper_bf16(phi)) : 0;
                   });
      });
    }
    state.add(now.q, now.n, now.e);
    __syncthreads();
  }
  state.store(ends);
}

}  // namespace

void sum_gradients_of_rows(Context& ctx, int64_t batch_heads, int64_t length, int64_t width,
                           const HeadRows<const BFloat16>& y, const HeadRows<const BFloat16>& dy,
                           const Strided<const float>& denominator, const Strided<float>& e) {
  const int blocks = static_cast<int>((length + kRowsOfBlock - 1) / kRowsOfBlock);
  with_width_of_panels(width, [&](auto d) {
    launch_blocks(ctx, grid_of(batch_heads * blocks), prepare_walk<d.value>, length, blocks, y, dy,
                  denominator, e);
  });
}

bool walk_query(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
                const HeadRows<const BFloat16>& y, const HeadRows<const BFloat16>& dy,
                const ChunkRows<float>& saved, const ChunkState<float>& running,
                const HeadRows<BFloat16>& dq, const Strided<float>& ddenominator) {
  if (!can_walk(shape, in, running, y, dy, dq)) return false;
  return with_width_that_fits<QueryShared>(ctx, shape.features, [&](auto D) {
    const Stretches cut = stretches_of(ctx, shape, in);
    const StretchStates states(ctx, shape, cut, {in.k, in.v}, running, cut.queries);
    if (!cut.queries) return;
    sum_gradients_of_rows(ctx, shape.batch_heads, shape.length, D, y, dy, saved.denominator,
                          ddenominator);
    const ChunkInput<BFloat16> rows{in.q, rows_or(in.k, in.q), {}, {}, rows_or(in.v, in.q)};
    launch_with<query_walk<D.value>, QueryShared<D.value>>(ctx, cut.grid(shape), shape, cut, rows,
                                                           dy, saved.denominator, ddenominator,
                                                           states.view(), dq);
  });
}

bool walk_key(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
              const HeadRows<const BFloat16>& dy, const ChunkRows<float>& saved,
              const Strided<const float>& ddenominator, const ChunkState<float>& running,
              const HeadRows<BFloat16>& dk, const HeadRows<BFloat16>& dv) {
  if (!can_walk(shape, in, running, dy, dk, dv)) return false;
  return with_width_that_fits<KeyShared>(ctx, shape.features, [&](auto D) {
    const Stretches cut = stretches_of(ctx, shape, in);
    const StretchStates states(ctx, shape, cut, {in.q, dy, saved.denominator, ddenominator},
                               running, cut.keys);
    const ChunkInput<BFloat16> rows{rows_or(in.q, in.k), in.k, {}, {}, in.v};
    if (cut.keys)
      launch_with<key_walk<D.value>, KeyShared<D.value>>(ctx, cut.grid(shape), shape, cut, rows, dy,
                                                         saved.denominator, ddenominator,
                                                         states.view(), dk, dv);
  });
}

}  // namespace linea::cuda
