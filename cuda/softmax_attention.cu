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
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// The keys that the queries of a tile see.
using Seen = KeyBounds<kTile>;

// A tile of queries and a tile of keys of one (batch, head).
struct Tiles {
  int64_t bh, query, key;  // the first of each tile
  int rows, keys;          // existing ones
  int64_t valid;           // keys of the sequence

  __device__ bool sees(const Seen& seen, int i, int j) const {
    return i < rows && seen.sees(i, static_cast<int>(key) + j);
  }
};
__device__ inline Tiles tiles_at(const SoftmaxShape& shape, int64_t bh, int64_t query,
                                 int64_t key) {
  const int64_t valid = valid_keys(shape.valid, bh, shape.keys);
  return {bh, query, key, within_tile(shape.queries - query), within_tile(valid - key), valid};
}

// sum += x z^T for rows of x and z.
template <typename T, typename A>
__device__ void add_dots(Sums<A>& sum, const TileRows<T>& x, const TileRows<T>& z,
                         Panels<A>& panels) {
  add_product<Along::terms, Along::terms>(sum, x.width, by_rows(x), by_rows(z), panels);
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads, 1)
    attend(SoftmaxShape shape, int64_t query_tiles, HeadRows<const T> q, HeadRows<const T> k,
           HeadRows<const T> v, HeadRows<T> y, Accumulator<T>* log_sums) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> weights;
  __shared__ Seen seen;
  __shared__ A max[kTile], total[kTile], shrink[kTile];
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / query_tiles, query = blockIdx.x % query_tiles * kTile;
  const int64_t D = shape.key_size, M = shape.value_size,
                first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  const int lane = own_lane();
  const A scale = static_cast<A>(shape.scale);
  if (threadIdx.x < kTile) {
    max[threadIdx.x] = kNothing<A>;
    total[threadIdx.x] = 0;
  }
  const Tiles own = tiles_at(shape, bh, query, 0);
  const int rows = own.rows;
  seen.find(shape, bh, query, rows, own.valid);
  __syncthreads();
  const TileRows<T> rows_q = tile_rows(q, bh, query, rows, D);
  Sums<A> sum;
  for (int64_t key = seen.first[0]; key < seen.end[rows - 1]; key += kTile) {
    const Tiles tiles = tiles_at(shape, bh, query, key);
    Sums<A> scores;
    add_dots(scores, rows_q, tile_rows(k, bh, key, tiles.keys, D), panels);
    Sums<A>::each([&](int e, int i, int j) {
      weights[i][j] = tiles.sees(seen, i, j) ? scale * scores[e] : kNothing<A>;
    });
    __syncthreads();
    for (int i = own_warp(); i < kTile; i += kBlockWarps) {
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
    Sums<A>::each([&](int e, int i, int) { sum[e] *= shrink[i]; });
    add_product<Along::terms, Along::tile>(
        sum, tiles.keys, by_rows(weights),
        by_columns(tile_rows(v, bh, key, tiles.keys, M), first_m), panels);
  }
  __syncthreads();
  T* to = y.at(bh, query);
  Sums<A>::each([&](int e, int i, int col) {
    const int64_t m = first_m + col;
    if (i < rows && m < M) to[i * y.row + m] = T(sum[e] * reciprocal_or_zero(total[i]));
  });
  const int i = static_cast<int>(threadIdx.x);
  if (blockIdx.y == 0 && i < rows)
    log_sums[bh * shape.queries + query + i] =
        total[i] == A(0) ? A(0) : max[i] + std::log(total[i]);
}

// The inputs of the backward pass.
template <typename T>
struct Given {
  HeadRows<const T> q, k, v, y, dy;
  const Accumulator<T>* log_sums;
};

// l_i and dy_i . y_i for a tile of queries, and the keys that they see.
template <typename A>
struct QuerySums {
  A log_sum[kTile], along[kTile];
  Seen seen;
};
template <typename T, typename A>
__device__ void sum_queries(const SoftmaxShape& shape, const Tiles& tiles, const Given<T>& in,
                            QuerySums<A>& sums) {
  sums.seen.find(shape, tiles.bh, tiles.query, tiles.rows, tiles.valid);
  for (int i = own_warp(); i < tiles.rows; i += kBlockWarps) {
    const T *dy = in.dy.at(tiles.bh, tiles.query + i), *y = in.y.at(tiles.bh, tiles.query + i);
    const A along =
        WarpTeam{}.sum_of(shape.value_size, [&](int64_t m) { return A(dy[m]) * A(y[m]); });
    if (own_lane() > 0) continue;
    sums.along[i] = along;
    sums.log_sum[i] = in.log_sums[tiles.bh * shape.queries + tiles.query + i];
  }
  __syncthreads();
}

// a_ij for this thread's queries and keys.
template <typename T, typename A>
__device__ void make_weights(const SoftmaxShape& shape, const Tiles& tiles, const Given<T>& in,
                             const QuerySums<A>& sums, Sums<A>& a, Panels<A>& panels) {
  const A scale = static_cast<A>(shape.scale);
  add_dots(a, tile_rows(in.q, tiles.bh, tiles.query, tiles.rows, shape.key_size),
           tile_rows(in.k, tiles.bh, tiles.key, tiles.keys, shape.key_size), panels);
  Sums<A>::each([&](int e, int i, int j) {
    a[e] = tiles.sees(sums.seen, i, j) ? exp_of(scale * a[e] - sums.log_sum[i]) : A(0);
  });
}

// gradients[i][j] = g_ij
template <typename T, typename A>
__device__ void make_gradients(const SoftmaxShape& shape, const Tiles& tiles, const Given<T>& in,
                               const QuerySums<A>& sums, const Sums<A>& a, Square<A>& grads,
                               Panels<A>& panels) {
  Sums<A> g;
  add_dots(g, tile_rows(in.dy, tiles.bh, tiles.query, tiles.rows, shape.value_size),
           tile_rows(in.v, tiles.bh, tiles.key, tiles.keys, shape.value_size), panels);
  Sums<A>::each([&](int e, int i, int j) {
    grads[i][j] = tiles.sees(sums.seen, i, j) ? a[e] * (g[e] - sums.along[i]) : A(0);
  });
  __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    gradient_of_queries(SoftmaxShape shape, int64_t query_tiles, Given<T> in, HeadRows<T> dq) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> grads;
  __shared__ QuerySums<A> sums;
  multiply_as(shape.products, panels);
  const int64_t bh = blockIdx.x / query_tiles, query = blockIdx.x % query_tiles * kTile;
  const int64_t D = shape.key_size, first_d = static_cast<int64_t>(blockIdx.y) * kTile;
  const Tiles own = tiles_at(shape, bh, query, 0);
  sum_queries(shape, own, in, sums);
  Sums<A> sum;
  for (int64_t key = sums.seen.first[0]; key < sums.seen.end[own.rows - 1]; key += kTile) {
    const Tiles tiles = tiles_at(shape, bh, query, key);
    Sums<A> a;
    make_weights(shape, tiles, in, sums, a, panels);
    make_gradients(shape, tiles, in, sums, a, grads, panels);
    add_product<Along::terms, Along::tile>(
        sum, tiles.keys, by_rows(grads),
        by_columns(tile_rows(in.k, bh, key, tiles.keys, D), first_d), panels);
  }
  T* to = dq.at(bh, query);
  const A scale = static_cast<A>(shape.scale);
  Sums<A>::each([&](int e, int i, int col) {
    if (i < own.rows && first_d + col < D) to[i * dq.row + first_d + col] = T(scale * sum[e]);
  });
}

// A tile of dk and a tile of dv, if keys and values are that wide.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads, 1)
    gradient_of_keys(SoftmaxShape shape, int64_t key_tiles, Given<T> in, HeadRows<T> dk,
                     HeadRows<T> dv) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
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
  Sums<A> of_k, of_v;
  for (int64_t query = before / kTile * kTile; keys > 0 && query < end; query += kTile) {
    const Tiles tiles = tiles_at(shape, bh, query, key);
    sum_queries(shape, tiles, in, sums);
    Sums<A> a;
    make_weights(shape, tiles, in, sums, a, panels);
    if (first < M) {
      Sums<A>::each([&](int e, int i, int j) { square[i][j] = a[e]; });
      add_product<Along::tile, Along::tile>(
          of_v, tiles.rows, by_columns(square),
          by_columns(tile_rows(in.dy, bh, query, tiles.rows, M), first), panels);
    }
    if (first < D) {
      make_gradients(shape, tiles, in, sums, a, square, panels);
      add_product<Along::tile, Along::tile>(
          of_k, tiles.rows, by_columns(square),
          by_columns(tile_rows(in.q, bh, query, tiles.rows, D), first), panels);
    }
    __syncthreads();
  }
  const A scale = static_cast<A>(shape.scale);
  const int rows = within_tile(shape.keys - key);
  T *to_k = dk.at(bh, key), *to_v = dv.at(bh, key);
  Sums<A>::each([&](int e, int j, int col) {
    if (j < rows && first + col < D) to_k[j * dk.row + first + col] = T(scale * of_k[e]);
    if (j < rows && first + col < M) to_v[j * dv.row + first + col] = T(of_v[e]);
  });
}

}  // namespace

template <typename T>
void softmax_attention(Context& ctx, const SoftmaxShape& given, const AttentionRows<const T>& in,
                       const HeadRows<T>& y, Accumulator<T>* log_sums) {
  const SoftmaxShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads == 0 || shape.queries == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (attend_panels(ctx, shape, in.q, in.k, in.v, y, log_sums)) return;
  const int64_t tiles = tiles_of(shape.queries);
  launch_blocks(ctx, grid_of(shape.batch_heads * tiles, tiles_of(shape.value_size)), attend<T>,
                shape, tiles, in.q, in.k, in.v, y, log_sums);
}

template <typename T>
void softmax_attention_backward(Context& ctx, const SoftmaxShape& given,
                                const AttentionRows<const T>& rows, const HeadRows<const T>& y,
                                const Accumulator<T>* log_sums, const HeadRows<const T>& dy,
                                const AttentionRows<T>& grads) {
  const SoftmaxShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (attend_panels_backward(ctx, shape, rows.q, rows.k, rows.v, y, log_sums, dy, grads.q,
                               grads.k, grads.v))
      return;
  const Given<T> in{rows.q, rows.k, rows.v, y, dy, log_sums};
  const int64_t queries = tiles_of(shape.queries), keys = tiles_of(shape.keys);
  const int64_t widest = std::max(shape.key_size, shape.value_size);
  if (shape.queries > 0)
    launch_blocks(ctx, grid_of(shape.batch_heads * queries, tiles_of(shape.key_size)),
                  gradient_of_queries<T>, shape, queries, in, grads.q);
  if (shape.keys > 0)
    launch_blocks(ctx, grid_of(shape.batch_heads * keys, tiles_of(widest)), gradient_of_keys<T>,
                  shape, keys, in, grads.k, grads.v);
}

LINEA_KERNEL_TABLE(SoftmaxAttentionKernels, .softmax_attention = softmax_attention<T>,
                   .softmax_attention_backward = softmax_attention_backward<T>)

}  // namespace linea::cuda
