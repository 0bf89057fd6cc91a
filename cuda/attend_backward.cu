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
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 * kQueryBands;  // of the warp
  const float scale = static_cast<float>(shape.scale) * kLog2E;
  if (threadIdx.x == 0) shared.k0 = in.k.at(bh, 0), shared.v0 = in.v.at(bh, 0);
  shared.seen.find(shape, bh, query, rows, keys);
  __syncthreads();
  const int first = shared.seen.first[0], end = shared.seen.end[rows - 1];
  if (first < end) {
    const int64_t at = bh * shape.queries + query;
    shared.q.template bring<kAttendThreads>(in.q.at(bh, query), stride_of(in.q), rows);
    shared.dy.template bring<kAttendThreads>(in.dy.at(bh, query), stride_of(in.dy), rows);
    bring_numbers(shared.log_sum, in.log_sums + at, rows);
    bring_numbers(shared.e, in.e + at, rows);
  }

  BandsSums<kQueryBands, kD> sums = {};
  in_stages<kKeys>(
      shared.stage, first, end,
      [&](auto& to, int key) {
        const int count = min(end - key, kKeys);
        to.k.template bring<kAttendThreads>(shared.k0 + int64_t{key} * stride_of(in.k),
                                            stride_of(in.k), count);
        to.v.template bring<kAttendThreads>(shared.v0 + int64_t{key} * stride_of(in.v),
                                            stride_of(in.v), count);
      },
      [&](const auto& now, int key) {
        constexpr int kLast = 16 * kQueryBands - 1;
        if (!shared.seen.meet(row, row + kLast, key, kKeys)) return;
        BandsSums<kQueryBands, kKeys> weights = {}, grads;  // a, g
        each_of_bands(grads, [&](float& grad, int i, int) { grad = shared.e[row + i]; });
        product_of_bands<kD>(weights, shared.q, row, now.k);
        product_of_bands<kD>(grads, shared.dy, row, now.v);
        each_of_bands(weights, [&](float& weight, int i, int) {
          weight = weight_of(weight, scale, shared.log_sum[row + i]);
        });
        multiply_each(grads, weights);
        if (!shared.seen.cover(row, row + kLast, key, kKeys))
          shared.seen.each_unseen(grads, row, key, [](float& grad) { grad = 0; });
        product_of_weights(sums, grads, now.k);
      });
  write_bands(dq, bh, query, sums, row, rows,
              [&](int, int) { return static_cast<float>(shape.scale); });
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
  const int keys = min(valid - key, kRows);                             // those that exist
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 * kBands;  // of the warp
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
    shared.k.template bring<kAttendThreads>(in.k.at(bh, key), stride_of(in.k), keys);
    shared.v.template bring<kAttendThreads>(in.v.at(bh, key), stride_of(in.v), keys);
  }

  // Rows of all products are keys. Columns of weights and their gradients are queries.
  BandsSums<kBands, kD> of_k = {}, of_v = {};
  in_stages<kQueries>(
      shared.stage, first, end,
      [&](auto& to, int query) {
        const int count = min(end - query, kQueries);
        const int64_t at = bh * shape.queries + query;
        to.q.template bring<kAttendThreads>(shared.q0 + int64_t{query} * stride_of(in.q),
                                            stride_of(in.q), count);
        to.dy.template bring<kAttendThreads>(shared.dy0 + int64_t{query} * stride_of(in.dy),
                                             stride_of(in.dy), count);
        bring_numbers(to.log_sum, in.log_sums + at, count);
        bring_numbers(to.e, in.e + at, count);
        to.seen.find(shape, bh, query, count, valid);
      },
      [&](const auto& now, int) {
        constexpr int kKeysOfWarp = 16 * kBands;
        const int own = key + row;
        if (!now.seen.meet(0, kQueries - 1, own, kKeysOfWarp)) return;
        BandsSums<kBands, kQueries> weights = {}, grads;  // a^T, g^T
        product_of_bands<kD>(weights, shared.k, row, now.q);
        each_of_bands(weights, [&](float& weight, int, int i) {
          weight = weight_of(weight, scale, now.log_sum[i]);
        });
        if (!now.seen.cover(0, kQueries - 1, own, kKeysOfWarp))
          each_of_bands(weights, [&](float& weight, int j, int i) {
            weight = now.seen.sees(i, own + j) ? weight : 0;
          });
        product_of_weights(of_v, weights, now.dy);
        each_of_bands(grads, [&](float& grad, int, int i) { grad = now.e[i]; });
        product_of_bands<kD>(grads, shared.v, row, now.dy);
        multiply_each(grads, weights);
        product_of_weights(of_k, grads, now.q);
      });
  const int rows = min(static_cast<int>(shape.keys) - key, kRows);
  write_bands(dk, bh, key, of_k, row, rows,
              [&](int, int) { return static_cast<float>(shape.scale); });
  write_bands(dv, bh, key, of_v, row, rows, [](int, int) { return 1.0f; });
}

}  // namespace

bool attend_panels_backward(Context& ctx, const SoftmaxShape& shape,
                            const HeadRows<const BFloat16>& q, const HeadRows<const BFloat16>& k,
                            const HeadRows<const BFloat16>& v, const HeadRows<const BFloat16>& y,
                            const float* log_sums, const HeadRows<const BFloat16>& dy,
                            const HeadRows<BFloat16>& dq, const HeadRows<BFloat16>& dk,
                            const HeadRows<BFloat16>& dv) {
  bool done = false;
  if (!can_attend(shape, q, k, v, y, dy, dq, dk, dv)) return done;
  with_width_of_panels(shape.key_size, [&](auto width) {
    constexpr int kD = width.value;
    done = holds<QueryShared<kD>>(ctx) && holds<KeyShared<kD>>(ctx);
    if (!done) return;
    const int64_t BH = shape.batch_heads, N = shape.queries;
    const Workspace<float> e(ctx, BH * N);
    sum_gradients_of_rows(ctx, BH, N, kD, y, dy, {}, {e.data(), N});
    const Inputs in{q, k, v, dy, log_sums, e.data()};
    const auto tiles = [](int64_t size, int rows) {
      return static_cast<int>((size + rows - 1) / rows);
    };
    const int queries = tiles(N, kQueryRows), keys = tiles(shape.keys, KeyShared<kD>::kRows);
    launch_with_panels<gradient_of_query_tiles<kD>, QueryShared<kD>, kAttendThreads>(
        ctx, BH * queries, shape, queries, in, dq);
    launch_with_panels<gradient_of_key_tiles<kD>, KeyShared<kD>, kAttendThreads>(
        ctx, BH * keys, shape, keys, in, dk, dv);
  });
  return done;
}

}  // namespace linea::cuda
