// y and d of a segment by a walk over its chunks, and the walk that only sums. Formulas:
// cuda/walk.h.
#include "cuda/walk.h"

namespace linea::cuda {
namespace {

template <int kD>
struct ForwardShared {
  struct Stage {
    Panel<kTile, kD> q, k, v;
  } stage[2];
  Panel<kD, kD> state;
  float key_sum[kD];
  Stretch stretch;
  const BFloat16 *q0, *k0, *v0;  // the first rows
  BFloat16* y0;
};

template <int kD>
__global__ void __launch_bounds__(kBlockThreads, kWalksAtOnce<kD>)
    forward_walk(ChunkShape shape, Stretches cut, ChunkInput<BFloat16> in, WalkStates ends,
                 HeadRows<BFloat16> y, Strided<float> denominator) {
  SharedMemory memory;
  ForwardShared<kD>& shared = *memory.take<ForwardShared<kD>>(1);
  using Own = Band<kD>;
  const Stretch& stretch = publish_stretch(shape, cut, shared.stretch);
  publish_rows(stretch, in.q, shared.q0, in.k, shared.k0, in.v, shared.v0, y, shared.y0);
  __syncthreads();
  const int lane = own_lane(), row = Own::row(), col = Own::col();

  const auto bring = [&](int chunk) {
    if (chunk < stretch.end) {
      auto& to = shared.stage[chunk & 1];
      const int keys = stretch.keys(chunk);
      to.q.bring(shared.q0, stride_of(in.q), chunk * kTile, stretch.rows(chunk));
      to.k.bring(shared.k0, stride_of(in.k), chunk * kTile, keys);
      to.v.bring(shared.v0, stride_of(in.v), chunk * kTile, keys);
    }
    __pipeline_commit();
  };
  WalkState<kD> state;
  bring(stretch.first);
  state.load(ends);
  for (int chunk = stretch.first; chunk < stretch.end; ++chunk) {
    bring(chunk + 1);
    auto& now = shared.stage[chunk & 1];
    const int rows = stretch.rows(chunk);
    state.publish(shared.state, shared.key_sum);
    __pipeline_wait_prior(1);
    __syncthreads();
    make_features(now.q, shape.feature, rows);
    make_features(now.k, shape.feature, stretch.keys(chunk));
    __syncthreads();

    BandSums<kTile> weights = {};  // A
    BandSums<Own::kColumns> sums = {};
    float d[2] = {};
    product<kD, Along::terms, Along::terms>(weights, now.q, row, now.k);
    each_sum(weights, [&](float& weight, int lower, int i, int j) {
      if (j > row + i) weight = 0;
      d[lower] += weight;
    });
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
#pragma unroll
      for (int f = 0; f < kD; f += 8) {
        const int of = f + lane % 4 * 2;
        const uint32_t pair = now.q.pair(row + lane / 4 + lower * 8, of);
        d[lower] +=
            lower_bf16(pair) * shared.key_sum[of] + upper_bf16(pair) * shared.key_sum[of + 1];
      }
      d[lower] += __shfl_xor_sync(kWholeWarp, d[lower], 1);
      d[lower] += __shfl_xor_sync(kWholeWarp, d[lower], 2);
    }
    product_from_registers<Along::tile>(sums, weights, now.v, col);
    product<kD, Along::terms, Along::tile>(sums, now.q, row, shared.state, col);

    const int64_t first = int64_t{chunk} * kTile;
    float inverse[2];
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      inverse[lower] = reciprocal_or_zero(d[lower]);
      const int i = row + lane / 4 + lower * 8;
      if (col == 0 && lane % 4 == 0 && i < rows) denominator.at(stretch.bh)[first + i] = d[lower];
    }
    write_rows(shared.y0 + int64_t{chunk * kTile} * stride_of(y) + col, stride_of(y), sums, row,
               rows, [&](float& left, float& right, int lower, int, int) {
                 left *= inverse[lower], right *= inverse[lower];
               });
    state.add(now.k, now.v);
    __syncthreads();
  }
  state.store(ends);
}

template <int kD>
struct SumShared {
  struct Stage {
    Panel<kTile, kD> rows, values;
    float denominator[kTile], weight[kTile];
  } stage[2];
  Stretch stretch;
  const BFloat16 *rows0, *values0;  // the first rows
};

// The sums of each stretch.
template <int kD>
__global__ void __launch_bounds__(kBlockThreads, kWalksAtOnce<kD>)
    sum_walk(ChunkShape shape, Stretches cut, WalkTerms terms, WalkStates ends) {
  SharedMemory memory;
  SumShared<kD>& shared = *memory.take<SumShared<kD>>(1);
  const Stretch& stretch = publish_stretch(shape, cut, shared.stretch);
  publish_rows(stretch, terms.rows, shared.rows0, terms.values, shared.values0);
  __syncthreads();
  const bool queries = terms.of_queries();
  const auto count_in = [&](int chunk) {
    return queries ? stretch.queries(chunk) : stretch.keys(chunk);
  };
  const auto bring = [&](int chunk) {
    if (chunk < stretch.end) {
      auto& to = shared.stage[chunk & 1];
      const int count = count_in(chunk), first = chunk * kTile;
      to.rows.bring(shared.rows0, stride_of(terms.rows), chunk * kTile, count);
      to.values.bring(shared.values0, stride_of(terms.values), chunk * kTile, count);
      if (queries) {
        bring_numbers(to.denominator, terms.denominator.at(stretch.bh) + first, count);
        bring_numbers(to.weight, terms.weight.at(stretch.bh) + first, count);
      }
    }
    __pipeline_commit();
  };
  WalkState<kD> state;
  bring(stretch.first);
  for (int chunk = stretch.first; chunk < stretch.end; ++chunk) {
    bring(chunk + 1);
    auto& now = shared.stage[chunk & 1];
    __pipeline_wait_prior(1);
    __syncthreads();
    make_features(now.rows, shape.feature, count_in(chunk));
    if (queries) divide_rows(now.values, now.denominator, count_in(chunk));
    __syncthreads();
    state.add(now.rows, now.values, queries ? now.weight : nullptr);
    __syncthreads();
  }
  state.store(ends);
}

// The scan over the stretches of S, whose elements are the first `count`, and of z.
struct ScanBoth {
  ScanSums<float> state, key_sum;
  int64_t count;
  __device__ void operator()(int64_t index) const {
    if (index < count)
      state(index);
    else
      key_sum(index - count);
  }
};

}  // namespace

StretchStates::StretchStates(Context& ctx, const ChunkShape& shape, const Stretches& cut,
                             const WalkTerms& terms, const ChunkState<float>& running, bool reads)
    : sums_(ctx, terms.rows.data == nullptr || (cut.count == 1 && reads)
                     ? 0
                     : shape.batch_heads * cut.count * shape.features * (shape.values + 1)) {
  if (terms.rows.data == nullptr) {
    view_ = {running.state, running.key_sum, nullptr, nullptr, cut.count};
    return;
  }
  if (cut.count == 1 && reads) {
    if (!shape.starts) view_.state = running.state, view_.key_sum = running.key_sum;
    if (!shape.ends) view_.final_state = running.state, view_.final_key_sum = running.key_sum;
    return;
  }
  const int64_t F = shape.features, rows = shape.batch_heads * F;
  float* const state = sums_.data();
  float* const key_sum = state + rows * cut.count * shape.values;
  with_width_of_panels(F, [&](auto width) {
    launch_with<sum_walk<width.value>, SumShared<width.value>>(
        ctx, cut.grid(shape), shape, cut, terms, WalkStates{nullptr, nullptr, state, key_sum});
  });
  const Group group{0, cut.count, terms.of_queries()};
  const auto scan = [&](int64_t width, float* sums, float* parts) {
    return ScanSums<float>{F, width, group, nullptr, nullptr, sums, parts};
  };
  for_each(ctx, rows * (shape.values + 1),
           ScanBoth{scan(shape.values, running.state, state), scan(1, running.key_sum, key_sum),
                    rows * shape.values});
  view_.state = state, view_.key_sum = key_sum;
}

bool walk_forward(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
                  const ChunkState<float>& running, const HeadRows<BFloat16>& y,
                  const ChunkRows<float>& saved) {
  if (!can_walk(shape, in, running, y)) return false;
  return with_width_that_fits<ForwardShared>(ctx, shape.features, [&](auto D) {
    const Stretches cut = stretches_of(ctx, shape, in);
    const StretchStates states(ctx, shape, cut, {in.k, in.v}, running, cut.queries);
    const ChunkInput<BFloat16> rows{in.q, rows_or(in.k, in.q), {}, {}, rows_or(in.v, in.q)};
    if (cut.queries)
      launch_with<forward_walk<D.value>, ForwardShared<D.value>>(
          ctx, cut.grid(shape), shape, cut, rows, states.view(), y, saved.denominator);
  });
}

}  // namespace linea::cuda
