// Softmax attention in tiles of 64 queries and 64 keys; nothing of size queries x keys leaves a
// block. For one (batch, head), with a_ij = exp(s q_i.k_j - l_i) and l_i = log sum_j exp(s q_i.k_j)
// over the keys that i sees:
//
//   y_i = sum_j a_ij v_j
//   dv_j = sum_i a_ij dy_i      g_ij = a_ij (dy_i.v_j - dy_i.y_i)
//   dq_i = s sum_j g_ij k_j     dk_j = s sum_i g_ij q_i
//
// The forward pass updates a running maximum m_i, sum and y_i from one tile of keys to the next
// (Milakov & Gimelshein 2018; Rabe & Staats 2021). Only l is saved for the backward pass, which
// recomputes a: once over the keys for dq, once over the queries for dk and dv, so that no two
// blocks add to the same element. cuda/attend.h has bf16 rows of 32, 64 or 128.
#include "cuda/attend.h"
#include "cuda/chunk.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {
namespace {

// A tile of queries and a tile of keys of one (batch, head).
struct Tiles {
  int64_t bh, query, key;  // the first of each tile
  int rows, keys;          // existing ones
  int first, end;          // query i sees the keys i + first <= j < i + end
  // or, where given, the keys firsts[i] <= key + j < ends[i]
  const int32_t *firsts = nullptr, *ends = nullptr;

  __device__ bool sees(int i, int j) const {
    if (i >= rows || j >= keys) return false;
    return (firsts == nullptr ? i + first <= j : firsts[i] <= key + j) &&
           (ends == nullptr ? j < i + end : key + j < ends[i]);
  }
};

__device__ inline int at_most_tile(int64_t count) {
  return static_cast<int>(count < 0 ? 0 : count < kTile ? count : kTile);
}
// A bound of a tile's keys relative to its query; all beyond the tile are alike.
__device__ inline int near_tile(int64_t bound) {
  return static_cast<int>(bound < -kTile ? -kTile : bound < kTile ? bound : kTile);
}
__device__ inline Tiles tiles_at(const SoftmaxShape& shape, int64_t bh, int64_t query,
                                 int64_t key) {
  const KeyRanges& ranges = shape.ranges;
  const int64_t row = bh * shape.queries + query;
  return {bh,
          query,
          key,
          at_most_tile(shape.queries - query),
          at_most_tile(valid_keys(shape.valid, bh, shape.keys) - key),
          near_tile(query + ranges.first - key),
          near_tile(query + ranges.end - key),
          ranges.firsts == nullptr ? nullptr : ranges.firsts + row,
          ranges.ends == nullptr ? nullptr : ranges.ends + row};
}
// The keys that the queries of the tile see together.
__device__ inline KeyRange keys_seen(const SoftmaxShape& shape, const Tiles& tiles) {
  const int64_t valid = valid_keys(shape.valid, tiles.bh, shape.keys);
  return {shape.seen(tiles.bh, tiles.query, valid).first,
          shape.seen(tiles.bh, tiles.query + tiles.rows - 1, valid).end};
}
// Rows of one tile.
template <typename T>
struct TileRows {
  using A = Accumulator<T>;
  const T* data;
  int64_t stride, width;
  int count;
  __device__ A at(int i, int64_t d) const {
    return i < count && d < width ? A(data[i * stride + d]) : A(0);
  }
};
template <typename T>
__device__ TileRows<T> rows_at(const HeadRows<const T>& x, int64_t bh, int64_t first, int count,
                               int64_t width) {
  return {count > 0 ? x.at(bh, first) : x.data, x.row, width, count};
}

// sum += x z^T for rows of x and z.
template <typename T>
__device__ void add_dots(Sums<T>& sum, const TileRows<T>& x, const TileRows<T>& z,
                         Panels<T>& panels) {
  add_product<Along::terms, Along::terms>(
      sum, x.width, [&](int i, int64_t d) { return x.at(i, d); },
      [&](int j, int64_t d) { return z.at(j, d); }, panels);
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads, 1)
    attend(SoftmaxShape shape, int64_t query_tiles, HeadRows<const T> q, HeadRows<const T> k,
           HeadRows<const T> v, HeadRows<T> y, Accumulator<T>* log_sums) {
  using A = Accumulator<T>;
  __shared__ Panels<T> panels;
  __shared__ Square<A> weights;
  __shared__ A max[kTile], total[kTile], shrink[kTile];
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / query_tiles, query = blockIdx.x % query_tiles * kTile;
  const int64_t M = shape.value_size, first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const A scale = static_cast<A>(shape.scale);
  if (threadIdx.x < kTile) {
    max[threadIdx.x] = kNothing<A>;
    total[threadIdx.x] = 0;
  }
  const Tiles first = tiles_at(shape, bh, query, 0);
  const KeyRange range = keys_seen(shape, first);
  const TileRows<T> rows_q = rows_at(q, bh, query, first.rows, shape.key_size);
  Sums<T> sum;
  for (int64_t key = range.first; key < range.end; key += kTile) {
    const Tiles tiles = tiles_at(shape, bh, query, key);
    Sums<T> scores;
    add_dots(scores, rows_q, rows_at(k, bh, key, tiles.keys, shape.key_size), panels);
    Sums<T>::each([&](int e, int i, int j) {
      weights[i][j] = tiles.sees(i, j) ? scale * scores[e] : kNothing<A>;
    });
    __syncthreads();
    for (int i = warp; i < kTile; i += kBlockThreads / kWarp) {
      const A low = weights[i][lane], high = weights[i][lane + kWarp], before = max[i];
      const A now = larger(before, warp_max(larger(low, high)));
      const A of_low = factor(low, now), of_high = factor(high, now), by = factor(before, now);
      weights[i][lane] = of_low;
      weights[i][lane + kWarp] = of_high;
      const A added = warp_sum(of_low + of_high);
      __syncwarp();  // all lanes have read max[i]
      if (lane > 0) continue;
      max[i] = now;
      shrink[i] = by;
      total[i] = by * total[i] + added;
    }
    __syncthreads();
    Sums<T>::each([&](int e, int i, int) { sum[e] *= shrink[i]; });
    const TileRows<T> rows_v = rows_at(v, bh, key, tiles.keys, M);
    add_product<Along::terms, Along::tile>(
        sum, tiles.keys, [&](int i, int64_t j) { return weights[i][j]; },
        [&](int m, int64_t j) { return rows_v.at(static_cast<int>(j), first_m + m); }, panels);
  }
  __syncthreads();
  T* to = y.at(bh, query);
  Sums<T>::each([&](int e, int i, int col) {
    const int64_t m = first_m + col;
    if (i < first.rows && m < M) to[i * y.row + m] = T(sum[e] * reciprocal_or_zero(total[i]));
  });
  const int i = static_cast<int>(threadIdx.x);
  if (blockIdx.y == 0 && i < first.rows)
    log_sums[bh * shape.queries + query + i] =
        total[i] == A(0) ? A(0) : max[i] + std::log(total[i]);
}

// The inputs of the backward pass.
template <typename T>
struct Given {
  HeadRows<const T> q, k, v, y, dy;
  const Accumulator<T>* log_sums;
};

// l_i and dy_i . y_i for a tile of queries.
template <typename A>
struct QuerySums {
  A log_sum[kTile], along[kTile];
};
template <typename T, typename A>
__device__ void sum_queries(const SoftmaxShape& shape, const Tiles& tiles, const Given<T>& in,
                            QuerySums<A>& sums) {
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < tiles.rows; i += kBlockThreads / kWarp) {
    const T *dy = in.dy.at(tiles.bh, tiles.query + i), *y = in.y.at(tiles.bh, tiles.query + i);
    A sum = 0;
    for (int64_t m = threadIdx.x % kWarp; m < shape.value_size; m += kWarp)
      sum += A(dy[m]) * A(y[m]);
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) {
      sums.along[i] = sum;
      sums.log_sum[i] = in.log_sums[tiles.bh * shape.queries + tiles.query + i];
    }
  }
  __syncthreads();
}

// a_ij for this thread's queries and keys.
template <typename T, typename A>
__device__ void make_weights(const SoftmaxShape& shape, const Tiles& tiles, const Given<T>& in,
                             const QuerySums<A>& sums, Sums<T>& a, Panels<T>& panels) {
  const A scale = static_cast<A>(shape.scale);
  add_dots(a, rows_at(in.q, tiles.bh, tiles.query, tiles.rows, shape.key_size),
           rows_at(in.k, tiles.bh, tiles.key, tiles.keys, shape.key_size), panels);
  Sums<T>::each([&](int e, int i, int j) {
    a[e] = tiles.sees(i, j) ? exp_of(scale * a[e] - sums.log_sum[i]) : A(0);
  });
}

// gradients[i][j] = g_ij
template <typename T, typename A>
__device__ void make_gradients(const SoftmaxShape& shape, const Tiles& tiles, const Given<T>& in,
                               const QuerySums<A>& sums, const Sums<T>& a, Square<A>& grads,
                               Panels<T>& panels) {
  Sums<T> g;
  add_dots(g, rows_at(in.dy, tiles.bh, tiles.query, tiles.rows, shape.value_size),
           rows_at(in.v, tiles.bh, tiles.key, tiles.keys, shape.value_size), panels);
  Sums<T>::each([&](int e, int i, int j) {
    grads[i][j] = tiles.sees(i, j) ? a[e] * (g[e] - sums.along[i]) : A(0);
  });
  __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    gradient_of_queries(SoftmaxShape shape, int64_t query_tiles, Given<T> in, HeadRows<T> dq) {
  using A = Accumulator<T>;
  __shared__ Panels<T> panels;
  __shared__ Square<A> grads;
  __shared__ QuerySums<A> sums;
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / query_tiles, query = blockIdx.x % query_tiles * kTile;
  const int64_t D = shape.key_size, first_d = static_cast<int64_t>(blockIdx.y) * kTile;
  const Tiles first = tiles_at(shape, bh, query, 0);
  const KeyRange range = keys_seen(shape, first);
  sum_queries(shape, first, in, sums);
  Sums<T> sum;
  for (int64_t key = range.first; key < range.end; key += kTile) {
    const Tiles tiles = tiles_at(shape, bh, query, key);
    Sums<T> a;
    make_weights(shape, tiles, in, sums, a, panels);
    make_gradients(shape, tiles, in, sums, a, grads, panels);
    const TileRows<T> k = rows_at(in.k, bh, key, tiles.keys, D);
    add_product<Along::terms, Along::tile>(
        sum, tiles.keys, [&](int i, int64_t j) { return grads[i][j]; },
        [&](int d, int64_t j) { return k.at(static_cast<int>(j), first_d + d); }, panels);
  }
  T* to = dq.at(bh, query);
  const A scale = static_cast<A>(shape.scale);
  Sums<T>::each([&](int e, int i, int col) {
    if (i < first.rows && first_d + col < D) to[i * dq.row + first_d + col] = T(scale * sum[e]);
  });
}

// A tile of dk and a tile of dv, if keys and values are that wide.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads, 1)
    gradient_of_keys(SoftmaxShape shape, int64_t key_tiles, Given<T> in, HeadRows<T> dk,
                     HeadRows<T> dv) {
  using A = Accumulator<T>;
  __shared__ Panels<T> panels;
  __shared__ Square<A> square;
  __shared__ QuerySums<A> sums;
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / key_tiles, key = blockIdx.x % key_tiles * kTile;
  const int64_t D = shape.key_size, M = shape.value_size,
                first = static_cast<int64_t>(blockIdx.y) * kTile;
  const int keys = tiles_at(shape, bh, 0, key).keys;
  // Queries from `before` on see the first key or a later one, those up to `end` the last or an
  // earlier one.
  const int64_t before = count_queries(shape, bh, &KeyRange::end, key),
                end = count_queries(shape, bh, &KeyRange::first, key + keys - 1);
  Sums<T> of_k, of_v;
  for (int64_t query = before / kTile * kTile; keys > 0 && query < end; query += kTile) {
    const Tiles tiles = tiles_at(shape, bh, query, key);
    sum_queries(shape, tiles, in, sums);
    Sums<T> a;
    make_weights(shape, tiles, in, sums, a, panels);
    if (first < M) {
      Sums<T>::each([&](int e, int i, int j) { square[i][j] = a[e]; });
      const TileRows<T> dy = rows_at(in.dy, bh, query, tiles.rows, M);
      add_product<Along::tile, Along::tile>(
          of_v, tiles.rows, [&](int j, int64_t i) { return square[i][j]; },
          [&](int m, int64_t i) { return dy.at(static_cast<int>(i), first + m); }, panels);
    }
    if (first < D) {
      make_gradients(shape, tiles, in, sums, a, square, panels);
      const TileRows<T> q = rows_at(in.q, bh, query, tiles.rows, D);
      add_product<Along::tile, Along::tile>(
          of_k, tiles.rows, [&](int j, int64_t i) { return square[i][j]; },
          [&](int d, int64_t i) { return q.at(static_cast<int>(i), first + d); }, panels);
    }
    __syncthreads();
  }
  const A scale = static_cast<A>(shape.scale);
  const int rows = at_most_tile(shape.keys - key);
  T *to_k = dk.at(bh, key), *to_v = dv.at(bh, key);
  Sums<T>::each([&](int e, int j, int col) {
    if (j < rows && first + col < D) to_k[j * dk.row + first + col] = T(scale * of_k[e]);
    if (j < rows && first + col < M) to_v[j * dv.row + first + col] = T(of_v[e]);
  });
}

}  // namespace

template <typename T>
void softmax_attention(Context& ctx, const SoftmaxShape& given, const AttentionRows<const T>& in,
                       const HeadRows<T>& y, Accumulator<T>* log_sums) {
  const SoftmaxShape shape = as_multiplied<T>(ctx, given, true);
  if (shape.batch_heads == 0 || shape.queries == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (attend_panels(ctx, shape, in.q, in.k, in.v, y, log_sums)) return;
  const int64_t tiles = tiles_of(shape.queries);
  launch(attend<T>,
         dim3(static_cast<unsigned>(shape.batch_heads * tiles),
              static_cast<unsigned>(tiles_of(shape.value_size))),
         dim3(kBlockThreads), 0, stream(ctx), shape, tiles, in.q, in.k, in.v, y, log_sums);
}

template <typename T>
void softmax_attention_backward(Context& ctx, const SoftmaxShape& given,
                                const AttentionRows<const T>& rows, const HeadRows<const T>& y,
                                const Accumulator<T>* log_sums, const HeadRows<const T>& dy,
                                const AttentionRows<T>& grads) {
  const SoftmaxShape shape = as_multiplied<T>(ctx, given, true);
  if (shape.batch_heads == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (attend_panels_backward(ctx, shape, rows.q, rows.k, rows.v, y, log_sums, dy, grads.q,
                               grads.k, grads.v))
      return;
  const Given<T> in{rows.q, rows.k, rows.v, y, dy, log_sums};
  const int64_t queries = tiles_of(shape.queries), keys = tiles_of(shape.keys);
  const int64_t widest = shape.key_size > shape.value_size ? shape.key_size : shape.value_size;
  if (shape.queries > 0)
    launch(gradient_of_queries<T>,
           dim3(static_cast<unsigned>(shape.batch_heads * queries),
                static_cast<unsigned>(tiles_of(shape.key_size))),
           dim3(kBlockThreads), 0, stream(ctx), shape, queries, in, grads.q);
  if (shape.keys > 0)
    launch(gradient_of_keys<T>,
           dim3(static_cast<unsigned>(shape.batch_heads * keys),
                static_cast<unsigned>(tiles_of(widest))),
           dim3(kBlockThreads), 0, stream(ctx), shape, keys, in, grads.k, grads.v);
}

LINEA_KERNEL_TABLE(SoftmaxAttentionKernels, .softmax_attention = softmax_attention<T>,
                   .softmax_attention_backward = softmax_attention_backward<T>)

}  // namespace linea::cuda
