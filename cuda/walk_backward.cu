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
  struct alignas(16) Eight {
    uint32_t pair[4];
  };
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
    if (row < left) {
      const Eight a = *reinterpret_cast<const Eight*>(y0 + row * y.row),
                  b = *reinterpret_cast<const Eight*>(dy0 + row * dy.row);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum += lower_bf16(a.pair[i]) * lower_bf16(b.pair[i]);
        sum += upper_bf16(a.pair[i]) * upper_bf16(b.pair[i]);
      }
    }
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2)
      sum += __shfl_xor_sync(kWholeWarp, sum, distance);
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
  int64_t at_q, at_k, at_v, at_dy, at_dq;  // offsets
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
  publish_offset(in.q, stretch, shared.at_q);
  publish_offset(in.k, stretch, shared.at_k);
  publish_offset(in.v, stretch, shared.at_v);
  publish_offset(dy, stretch, shared.at_dy);
  publish_offset(dq, stretch, shared.at_dq);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = Own::row(), col = Own::col();

  const auto bring = [&](int chunk) {
    if (chunk < stretch.end) {
      const int first = chunk * kTile;
      auto& to = shared.stage[chunk & 1];
      const int rows = stretch.rows(chunk), keys = stretch.keys(chunk);
      bring_chunk(to.k, in.k, shared.at_k, chunk, keys);
      bring_chunk(to.v, in.v, shared.at_v, chunk, keys);
      bring_chunk(to.n, dy, shared.at_dy, chunk, rows);
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
    bring_chunk(shared.q, in.q, shared.at_q, chunk, rows);
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
    product<kD, Along::terms, Along::terms>(grads, now.n, row, now.v, 0);
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
      write_rows(rows_of_chunk(dq, shared.at_dq, chunk) + col, stride_of(dq), sums, row, rows,
                 [&](float& left, float& right, int, int i, int f) {
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
  int64_t at_q, at_k, at_v, at_dy, at_dk, at_dv;  // offsets
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
  publish_offset(in.q, stretch, shared.at_q);
  publish_offset(in.k, stretch, shared.at_k);
  publish_offset(in.v, stretch, shared.at_v);
  publish_offset(dy, stretch, shared.at_dy);
  publish_offset(dk, stretch, shared.at_dk);
  publish_offset(dv, stretch, shared.at_dv);
  __syncthreads();
  const int row = Own::row(), col = Own::col();

  const auto bring = [&](int chunk) {
    if (chunk >= stretch.first) {
      const int first = chunk * kTile;
      auto& to = shared.stage[chunk & 1];
      const int rows = stretch.queries(chunk);
      bring_chunk(to.q, in.q, shared.at_q, chunk, rows);
      bring_chunk(to.k, in.k, shared.at_k, chunk, stretch.keys(chunk));
      bring_chunk(to.n, dy, shared.at_dy, chunk, rows);
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
    bring_chunk(shared.v, in.v, shared.at_v, chunk, keys);
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
      product<kD, Along::terms, Along::terms>(weights, now.k, row, now.q, 0);
      each_sum(weights, [&](float& weight, int, int j, int i) {
        if (i < row + j) weight = 0;
      });
      product_from_registers<Along::tile>(sums, weights, now.n, col);
      product<kD, Along::terms, Along::tile>(sums, now.k, row, shared.state, col);
      write_rows(rows_of_chunk(dv, shared.at_dv, chunk) + col, stride_of(dv), sums, row, rows,
                 [](float&, float&, int, int, int) {});
    }
    __pipeline_wait_prior(1);
    __syncthreads();
    {
      BandSums<kTile> grads = {};  // G^T
      BandSums<Own::kColumns> sums;
      product<kD, Along::terms, Along::terms>(grads, shared.v, row, now.n, 0);
      each_sum(grads,
               [&](float& grad, int, int j, int i) { grad = i < row + j ? 0 : grad + now.e[i]; });
      each_sum(sums, [&](float& sum, int, int, int f) { sum = shared.key_sum[col + f]; });
      product_from_registers<Along::tile>(sums, grads, now.q, col);
      product<kD, Along::terms, Along::terms>(sums, shared.v, row, shared.state, col);
      with_feature_of_walk(shape.feature, [&](auto feature) {
        using F = decltype(feature);
        write_rows(rows_of_chunk(dk, shared.at_dk, chunk) + col, stride_of(dk), sums, row, rows,
                   [&](float& left, float& right, int, int j, int f) {
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

template <int kD>
void backward_query(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
                    const HeadRows<const BFloat16>& y, const HeadRows<const BFloat16>& dy,
                    const ChunkRows<float>& saved, const ChunkState<float>& running,
                    const HeadRows<BFloat16>& dq, const Strided<float>& ddenominator) {
  const Stretches cut = stretches_of(ctx, shape, in);
  const StretchStates states(ctx, shape, cut, {in.k, in.v}, running, cut.queries);
  if (!cut.queries) return;
  const Strided<const float> d{saved.denominator.data, saved.denominator.stride};
  sum_gradients_of_rows(ctx, shape.batch_heads, shape.length, kD, y, dy, d, ddenominator);
  const ChunkInput<BFloat16> rows{in.q, rows_or(in.k, in.q), {}, {}, rows_or(in.v, in.q)};
  launch_walk<query_walk<kD>, QueryShared<kD>>(ctx, shape, cut, rows, dy, d, ddenominator,
                                               states.view(), dq);
}

template <int kD>
void backward_key(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
                  const HeadRows<const BFloat16>& dy, const ChunkRows<float>& saved,
                  const Strided<const float>& ddenominator, const ChunkState<float>& running,
                  const HeadRows<BFloat16>& dk, const HeadRows<BFloat16>& dv) {
  const Stretches cut = stretches_of(ctx, shape, in);
  const Strided<const float> d{saved.denominator.data, saved.denominator.stride};
  const StretchStates states(ctx, shape, cut, {in.q, dy, d, ddenominator}, running, cut.keys);
  if (!cut.keys) return;
  const ChunkInput<BFloat16> rows{rows_or(in.q, in.k), in.k, {}, {}, in.v};
  launch_walk<key_walk<kD>, KeyShared<kD>>(ctx, shape, cut, rows, dy, d, ddenominator,
                                           states.view(), dk, dv);
}

}  // namespace

void sum_gradients_of_rows(Context& ctx, int64_t batch_heads, int64_t length, int64_t width,
                           const HeadRows<const BFloat16>& y, const HeadRows<const BFloat16>& dy,
                           const Strided<const float>& denominator, const Strided<float>& e) {
  const int blocks = static_cast<int>((length + kRowsOfBlock - 1) / kRowsOfBlock);
  with_width_of_panels(width, [&](auto d) {
    launch(prepare_walk<d.value>, dim3(static_cast<unsigned>(batch_heads * blocks)),
           dim3(kBlockThreads), 0, stream(ctx), length, blocks, y, dy, denominator, e);
  });
}

bool walk_query(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
                const HeadRows<const BFloat16>& y, const HeadRows<const BFloat16>& dy,
                const ChunkRows<float>& saved, const ChunkState<float>& states,
                const HeadRows<BFloat16>& dq, const Strided<float>& ddenominator) {
  bool done = false;
  if (!can_walk(shape, in, states, y, dy, dq)) return done;
  with_width_of_panels(shape.features, [&](auto width) {
    done = holds<QueryShared<width.value>>(ctx);
    if (done) backward_query<width.value>(ctx, shape, in, y, dy, saved, states, dq, ddenominator);
  });
  return done;
}

bool walk_key(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
              const HeadRows<const BFloat16>& dy, const ChunkRows<float>& saved,
              const Strided<const float>& ddenominator, const ChunkState<float>& grads,
              const HeadRows<BFloat16>& dk, const HeadRows<BFloat16>& dv) {
  bool done = false;
  if (!can_walk(shape, in, grads, dy, dk, dv)) return done;
  with_width_of_panels(shape.features, [&](auto width) {
    done = holds<KeyShared<width.value>>(ctx);
    if (done) backward_key<width.value>(ctx, shape, in, dy, saved, ddenominator, grads, dk, dv);
  });
  return done;
}

}  // namespace linea::cuda
