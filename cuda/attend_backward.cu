// dq, dk and dv of softmax attention on panels. Formulas: cuda/attend.h.
#include "cuda/attend.h"

namespace linea::cuda {
namespace {

struct Inputs {
  HeadRows<const BFloat16> q, k, v, dy;
  const float *log_sums, *e;  // [BH,queries]
};

// a = exp(scale score - log sum), with a scale for the base 2.
__device__ __forceinline__ float weight_of(float score, float scale, float log_sum) {
  return exp2_approx(score * scale - log_sum * kLog2E);
}

// For write_rows().
__device__ __forceinline__ auto multiplied_by(double scale) {
  return [by = static_cast<float>(scale)](float& x, float& y, int, int, int) { x *= by, y *= by; };
}

// ---- dq ----

inline constexpr int kQueryBands = 2, kQueryRows = kBandRows<kQueryBands>;
inline constexpr int kKeys = 32;  // at a time

template <int kD>
struct QueryShared {
  Panel<kQueryRows, kD> q, dy;
  struct Stage {
    Panel<kKeys, kD> k, v;
  } stage[2];
  KeyBounds<kQueryRows> seen;
  float log_sum[kQueryRows], e[kQueryRows];
  const BFloat16 *k0, *v0;  // the first rows, here to spare registers
};

template <int kD>
__global__ void __launch_bounds__(kAttendThreads, kD > 64 ? 2 : 3)
    gradient_of_query_tiles(SoftmaxShape shape, int tiles, Inputs in, HeadRows<BFloat16> dq) {
  SharedMemory memory;
  QueryShared<kD>& shared = *memory.take<QueryShared<kD>>(1);
  // Tiles that may see the most keys come first.
  const int block = static_cast<int>(blockIdx.x), bh = block / tiles,
            query = (tiles - 1 - block % tiles) * kQueryRows;
  const int rows = min(static_cast<int>(shape.queries) - query, kQueryRows);
  const int keys = static_cast<int>(valid_keys(shape.valid, bh, shape.keys));
  const int row = own_warp() * 16 * kQueryBands;
  const float scale = static_cast<float>(shape.scale) * kLog2E;
  if (threadIdx.x == 0) shared.k0 = in.k.at(bh, 0), shared.v0 = in.v.at(bh, 0);
  shared.seen.find(shape, bh, query, rows, keys);
  __syncthreads();
  const int first = shared.seen.first[0], end = shared.seen.end[rows - 1];
  if (first < end) {
    const int64_t at = bh * shape.queries + query;
    shared.q.template bring<kAttendThreads>(in.q.at(bh, 0), stride_of(in.q), query, rows);
    shared.dy.template bring<kAttendThreads>(in.dy.at(bh, 0), stride_of(in.dy), query, rows);
    bring_numbers(shared.log_sum, in.log_sums + at, rows);
    bring_numbers(shared.e, in.e + at, rows);
  }

  BandSums<kD, kQueryBands> sums = {};
  in_stages<kKeys>(
      shared.stage, first, end,
      [&](auto& to, int key) {
        const int count = min(end - key, kKeys);
        to.k.template bring<kAttendThreads>(shared.k0, stride_of(in.k), key, count);
        to.v.template bring<kAttendThreads>(shared.v0, stride_of(in.v), key, count);
      },
      [&](const auto& now, int key) {
        constexpr int kLast = 16 * kQueryBands - 1;
        if (!shared.seen.meet(row, row + kLast, key, kKeys)) return;
        BandSums<kKeys, kQueryBands> weights = {}, grads;  // a, g
        each_sum(grads, [&](float& grad, int, int i, int) { grad = shared.e[row + i]; });
        product<kD, Along::terms, Along::terms>(weights, shared.q, row, now.k);
        product<kD, Along::terms, Along::terms>(grads, shared.dy, row, now.v);
        each_sum(weights, [&](float& weight, int, int i, int) {
          weight = weight_of(weight, scale, shared.log_sum[row + i]);
        });
        multiply_each(grads, weights);
        if (!shared.seen.cover(row, row + kLast, key, kKeys))
          shared.seen.each_unseen(grads, row, key, [](float& grad) { grad = 0; });
        product_from_registers<Along::tile>(sums, grads, now.k);
      });
  write_rows(dq.at(bh, query), stride_of(dq), sums, row, rows, multiplied_by(shape.scale));
}

// ---- dk and dv ----

template <int kD>
inline constexpr int kKeyBands = kD > 64 ? 1 : 2;
inline constexpr int kQueries = 32;  // at a time

template <int kD>
struct KeyShared {
  static constexpr int kRows = kBandRows<kKeyBands<kD>>;
  Panel<kRows, kD> k, v;
  struct Stage {
    Panel<kQueries, kD> q, dy;
    float log_sum[kQueries], e[kQueries];
    KeyBounds<kQueries> seen;
  } stage[2];
  const BFloat16 *q0, *dy0;  // the first rows, here to spare registers
  int first, end;            // the queries that see one of the keys
};

template <int kD>
__global__ void __launch_bounds__(kAttendThreads, kD > 32 ? 2 : 3)
    gradient_of_key_tiles(SoftmaxShape shape, int tiles, Inputs in, HeadRows<BFloat16> dk,
                          HeadRows<BFloat16> dv) {
  constexpr int kBands = kKeyBands<kD>, kRows = KeyShared<kD>::kRows;
  SharedMemory memory;
  KeyShared<kD>& shared = *memory.take<KeyShared<kD>>(1);
  const int bh = static_cast<int>(blockIdx.x) / tiles,
            key = static_cast<int>(blockIdx.x) % tiles * kRows;
  const int valid = static_cast<int>(valid_keys(shape.valid, bh, shape.keys));
  const int keys = min(valid - key, kRows);  // those that exist
  const int row = own_warp() * 16 * kBands;
  const float scale = static_cast<float>(shape.scale) * kLog2E;
  if (threadIdx.x == 0) {
    // Queries from `first` on see the first key or a later one, those up to `end` the last or an
    // earlier one.
    shared.first = static_cast<int>(count_queries(shape, bh, &KeyRange::end, key));
    shared.end = static_cast<int>(count_queries(shape, bh, &KeyRange::first, key + keys - 1));
    if (keys <= 0) shared.end = 0;
    shared.q0 = in.q.at(bh, 0), shared.dy0 = in.dy.at(bh, 0);
  }
  __syncthreads();
  const int first = shared.first, end = shared.end;
  if (first < end) {
    shared.k.template bring<kAttendThreads>(in.k.at(bh, 0), stride_of(in.k), key, keys);
    shared.v.template bring<kAttendThreads>(in.v.at(bh, 0), stride_of(in.v), key, keys);
  }

  // Rows of all products are keys. Columns of weights and their gradients are queries.
  BandSums<kD, kBands> of_k = {}, of_v = {};
  in_stages<kQueries>(
      shared.stage, first, end,
      [&](auto& to, int query) {
        const int count = min(end - query, kQueries);
        const int64_t at = bh * shape.queries + query;
        to.q.template bring<kAttendThreads>(shared.q0, stride_of(in.q), query, count);
        to.dy.template bring<kAttendThreads>(shared.dy0, stride_of(in.dy), query, count);
        bring_numbers(to.log_sum, in.log_sums + at, count);
        bring_numbers(to.e, in.e + at, count);
        to.seen.find(shape, bh, query, count, valid);
      },
      [&](const auto& now, int) {
        constexpr int kKeysOfWarp = 16 * kBands;
        const int own = key + row;
        if (!now.seen.meet(0, kQueries - 1, own, kKeysOfWarp)) return;
        BandSums<kQueries, kBands> weights = {}, grads;  // a^T, g^T
        product<kD, Along::terms, Along::terms>(weights, shared.k, row, now.q);
        each_sum(weights, [&](float& weight, int, int, int i) {
          weight = weight_of(weight, scale, now.log_sum[i]);
        });
        if (!now.seen.cover(0, kQueries - 1, own, kKeysOfWarp))
          each_sum(weights, [&](float& weight, int, int j, int i) {
            weight = now.seen.sees(i, own + j) ? weight : 0;
          });
        product_from_registers<Along::tile>(of_v, weights, now.dy);
        each_sum(grads, [&](float& grad, int, int, int i) { grad = now.e[i]; });
        product<kD, Along::terms, Along::terms>(grads, shared.v, row, now.dy);
        multiply_each(grads, weights);
        product_from_registers<Along::tile>(of_k, grads, now.q);
      });
  const int rows = min(static_cast<int>(shape.keys) - key, kRows);
  write_rows(dk.at(bh, key), stride_of(dk), of_k, row, rows, multiplied_by(shape.scale));
  write_rows(dv.at(bh, key), stride_of(dv), of_v, row, rows, multiplied_by(1));
}

}  // namespace

bool attend_panels_backward(Context& ctx, const SoftmaxShape& shape,
                            const HeadRows<const BFloat16>& q, const HeadRows<const BFloat16>& k,
                            const HeadRows<const BFloat16>& v, const HeadRows<const BFloat16>& y,
                            const float* log_sums, const HeadRows<const BFloat16>& dy,
                            const HeadRows<BFloat16>& dq, const HeadRows<BFloat16>& dk,
                            const HeadRows<BFloat16>& dv) {
  if (!can_attend(shape, q, k, v, y, dy, dq, dk, dv)) return false;
  return with_width_that_fits<QueryShared, KeyShared>(ctx, shape.key_size, [&](auto D) {
    constexpr int kD = D;
    const int64_t BH = shape.batch_heads, N = shape.queries;
    const Workspace<float> e(ctx, BH * N);
    sum_gradients_of_rows(ctx, BH, N, kD, y, dy, {}, {e.data(), N});
    const Inputs in{q, k, v, dy, log_sums, e.data()};
    const auto tiles = [](int64_t size, int rows) {
      return static_cast<int>((size + rows - 1) / rows);
    };
    const int queries = tiles(N, kQueryRows), keys = tiles(shape.keys, KeyShared<kD>::kRows);
    launch_with<gradient_of_query_tiles<kD>, QueryShared<kD>, kAttendThreads>(
        ctx, grid_of(BH * queries), shape, queries, in, dq);
    launch_with<gradient_of_key_tiles<kD>, KeyShared<kD>, kAttendThreads>(ctx, grid_of(BH * keys),
                                                                          shape, keys, in, dk, dv);
  });
}

}  // namespace linea::cuda
