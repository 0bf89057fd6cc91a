// Backward pass of the sum rule over a segment: the computations inside a chunk that both sweeps
// share. Formulas: tensor/cpu/chunk_backward.h.
#pragma once

#include "cuda/chunk_sweep.h"

namespace linea::cuda {

// The inputs of a block for a chunk.
template <NumericMode kMode, typename T>
struct Pieces {
  using A = Accumulator<T>;
  Rows<kMode, T> q, k;
  TileRows<T> v, dy;
  const A *key_offset, *max;               // o, and its maximum up to each row
  const A *query_offset, *inverse, *grad;  // -m, 1 / d, e

  // n_i
  __device__ A numerator(int i, int64_t m) const {
    return i < q.count ? dy.or_zero(i, m) * inverse[i] : A(0);
  }
  __device__ bool sees(int i, int j) const { return j <= i && j < k.count && i < q.count; }
  // exp(o_j - m_i)
  __device__ A visible(int i, int j) const {
    return kMode == NumericMode::plain ? A(1) : factor(key_offset[j], -query_offset[i]);
  }
  // Whether the forward pass sums this row's contribution from inside the chunk in log space.
  // Otherwise m_i is at least the largest offset.
  __device__ bool by_logs(int i) const {
    return kMode == NumericMode::logs && k.count > 0 && i < q.count && -query_offset[i] < max[i];
  }
  // For such a row, w_ijf = exp(q_if + k_jf + rest).
  __device__ A rest(int i, int j) const {
    return key_offset[j] - k.top[j] - q.top[i] + query_offset[i];
  }
};

template <NumericMode kMode, typename T>
__device__ Pieces<kMode, T> pieces_of(const ChunkShape& shape, const Chunk& chunk,
                                      const ChunkInput<T>& in, const HeadRows<const T>& dy,
                                      const KeyTable<Accumulator<T>>& keys,
                                      const QueryTable<Accumulator<T>>& queries) {
  const auto at = [&](const Accumulator<T>* table) {
    return table == nullptr ? nullptr : table + chunk.entry;
  };
  return {
      chunk_rows<kMode>(shape, in.q, chunk, chunk.rows, queries.top),
      chunk_rows<kMode>(shape, in.k, chunk, chunk.keys, keys.top),
      tile_rows(in.v, chunk.bh, chunk.first, in.k.data == nullptr ? 0 : chunk.keys, shape.values),
      tile_rows(dy, chunk.bh, chunk.first, in.q.data == nullptr ? 0 : chunk.rows, shape.values),
      at(keys.offset),
      at(keys.max),
      at(queries.offset),
      at(queries.inverse),
      at(queries.grad)};
}

// The rows that the forward pass sums in log space (NumericMode::logs only).
struct RowsByLogs {
  bool row[kTile];
  bool any;
};
template <NumericMode kMode, typename T>
__device__ void find_by_logs(const Pieces<kMode, T>& of, RowsByLogs& found) {
  if (kMode != NumericMode::logs) return;
  if (own_warp() == 0) {
    const int lane = own_lane();
    const bool low = of.by_logs(lane), high = of.by_logs(lane + kWarp);
    found.row[lane] = low;
    found.row[lane + kWarp] = high;
    const bool any = __any_sync(kWholeWarp, low || high) != 0;
    if (lane == 0) found.any = any;
  }
  __syncthreads();
}

// gradients[i][j] = dw_ij exp(o_j - m_i), dw_ij = n_i . v_j + e_i, if row i sees key j, else 0;
// just dw_ij for rows summed in log space.
template <NumericMode kMode, typename T, typename A>
__device__ void make_gradients(const Pieces<kMode, T>& of, const RowsByLogs& by_logs,
                               Square<A>& grads, Panels<A>& panels) {
  Sums<A> product;
  add_product<Along::terms, Along::terms>(
      product, of.v.width, [&](int i, int64_t m) { return of.numerator(i, m); }, by_rows(of.v),
      panels);
  Sums<A>::each([&](int e, int i, int j) {
    A grad = 0;
    if (of.sees(i, j)) {
      const A visible = kMode == NumericMode::logs && by_logs.row[i] ? A(1) : of.visible(i, j);
      grad = visible == A(0) ? A(0) : (product[e] + of.grad[i]) * visible;
    }
    grads[i][j] = grad;
  });
  __syncthreads();
}

// exp(log of feature f in the state + log in a row); `rest`: the row's remaining terms. At most 1.
template <typename A>
__device__ A read_by_logs(A log, A scale, A rest) {
  const A all = log + scale;
  return all == kNothing<A> ? A(0) : exp_of(all + rest);
}

// A block's part of dq or, kOfKeys, of dk: a chunk by a tile of features. With G of make_gradients()
// and up to the factors of logs and scales:
//
//   dq_i = (n_i S^T + e_i z + sum_j G_ij k_j) phi'    dk_j = (v_j S^T + z + sum_i G_ij q_i) phi'
//
// Adds dx x to `whole`, for each of the thread's two rows.
template <NumericMode kMode, bool kOfKeys, typename T, typename A>
__device__ __forceinline__ void feature_gradients(const ChunkShape& shape, const Chunk& chunk,
                                                  const Pieces<kMode, T>& of,
                                                  const StateAt<A>& state, Square<A>& grads,
                                                  Panels<A>& panels, const HeadRows<T>& dx,
                                                  A (&whole)[2]) {
  __shared__ RowsByLogs by_logs;
  constexpr bool kLogs = kMode == NumericMode::logs, kPlain = kMode == NumericMode::plain;
  const int64_t F = shape.features, first_f = static_cast<int64_t>(blockIdx.y) * kTile;
  const Rows<kMode, T>&x = kOfKeys ? of.k : of.q, &other = kOfKeys ? of.q : of.k;
  const A* const offset = kOfKeys ? of.key_offset : of.query_offset;
  // The query and the key of a row of x and another row.
  const auto query = [](int own, int64_t l) { return kOfKeys ? static_cast<int>(l) : own; };
  const auto key = [](int own, int64_t l) { return kOfKeys ? own : static_cast<int>(l); };
  find_by_logs(of, by_logs);
  Sums<A> inside;
  if (of.q.count > 0 && of.k.count > 0) {
    make_gradients(of, by_logs, grads, panels);
    add_product<kOfKeys ? Along::tile : Along::terms, Along::tile>(
        inside, other.count,
        [&](int own, int64_t l) {
          const int i = query(own, l);
          return kLogs && by_logs.row[i] ? A(0) : grads[i][key(own, l)];
        },
        by_columns(other, first_f), panels);
  }
  // For plain values the state's contribution needs no factor, and is added to that from inside.
  Sums<A> apart;
  if (!state.empty)
    add_product<Along::terms, Along::terms>(
        kPlain ? inside : apart, shape.values,
        [&](int own, int64_t m) { return kOfKeys ? of.v.or_zero(own, m) : of.numerator(own, m); },
        by_rows(state.state.from(first_f)), panels);

  T* to = dx.at(chunk.bh, chunk.first);
  Sums<A>::each([&](int e, int own, int col) {
    const int64_t f = first_f + col;
    if (own >= chunk.rows || f >= F) return;
    A grad = 0, feature = 0;
    if (own < x.count) {
      const A given = x.given(own, f);
      feature = x.at(own, f);
      grad = kLogs ? inside[e] * feature : inside[e];
      if (!state.empty) {
        const A z = state.key_sum[f], of_state = apart[e] + (kOfKeys ? z : of.grad[own] * z);
        if (kPlain)
          grad += of_state;
        else if (kLogs)
          grad += of_state * read_by_logs(given, state.scale[f], offset[own] - x.top[own]);
        else
          grad += of_state * factor(state.scale[f], -offset[own]);
      }
      if (kLogs && other.count > 0 && by_logs.any)
#pragma unroll 1
        for (int l = kOfKeys ? own : 0; l < (kOfKeys ? other.count : min(own + 1, other.count));
             ++l)
          if (const int i = query(own, l), j = key(own, l); by_logs.row[i])
            grad += grads[i][j] * exp_of(of.q.given(i, f) + of.k.given(j, f) + of.rest(i, j));
    }
    whole[(e & 2) / 2] += kLogs ? grad : grad * feature;
    if (!kLogs) grad *= feature_derivative(shape.feature, feature);
    to[own * dx.row + f] = T(grad);
  });
}

}  // namespace linea::cuda
