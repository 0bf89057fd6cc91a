// The delta rule, one segment at a time (formulas: tensor/cpu/delta.cpp). The update of a chunk of
// 64 positions depends on all earlier chunks, but only within the same column of values: one block
// per (batch, head) and 64 columns walks the chunks. The prediction errors are R, the updates X = B
// R:
//
//   W = K K^T    (I + strictly_lower(W B)) R = V - K S    Y = Q S + lower(Q K^T) B R
//   S' = S + K^T B R
//
// Backward, such a block walks the chunks in reverse:
//
//   dX = lower(Q K^T)^T dY + K dS'     dE = (I + strictly_lower(B W))^-T dX     dV = B dE
//   dS = dS' + Q^T dY - K^T dV
//
// and the rest is computed for all chunks in parallel:
//
//   P = lower(dY X^T)    G = strictly_lower(dV X^T)
//   dQ = dY S^T + P K     dK = P^T Q + X dS'^T - (G + G^T) K - dV S^T     dbeta_i = dE_i . R_i
//
// Decays multiply as in tensor/cpu/delta.cpp.
#include "cuda/delta.h"

namespace linea::cuda {
namespace {

// to[i][j] = value(i, j, x_i . z_j)
template <typename T, typename Value>
__device__ void dots(const TileRows<T>& x, const TileRows<T>& z, Square<T>& to, Panels<T>& panels,
                     const Value& value) {
  Sums<T> product;
  add_product<Along::terms, Along::terms>(product, x.width, by_rows(x), by_rows(z), panels);
  Sums<T>::each([&](int e, int i, int j) { to[i][j] = value(i, j, product[e]); });
  __syncthreads();
}

// The states of a (batch, head)'s chunks, `step` elements apart (0: a single state, updated in
// place), and R [P,S,M] if it is saved.
template <typename T>
struct Saved {
  T* state;
  int64_t bh, step;
  T* missed;
};

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    write_chunks(ChunkShape shape, int64_t chunks, DeltaInputs<T> in, Saved<T> saved,
                 Strided<T> y) {
  DeltaShared<T>& shared = DeltaShared<T>::take(shape.products);
  const int64_t bh = blockIdx.x, F = shape.features, M = shape.values;
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  for (int64_t index = 0; index < chunks; ++index) {
    const Chunk chunk = chunk_at(shape, {0, chunks}, bh * chunks + index);
    const DeltaChunk<T> of = in.of(shape, chunk);
    T* const state = saved.state + bh * saved.bh + index * saved.step;
    // sum += x S, with row i of x times exp(L_i)
    const auto add_read = [&](Sums<T>& sum, const TileRows<T>& x) {
      add_product<Along::terms, Along::tile>(
          sum, F, [&](int i, int64_t f) { return x.or_zero(i, f) * of.from_start(i); },
          by_columns(matrix_rows(state, F, M), first_m), shared.panels);
    };
    if (chunk.keys > 0) {
      dots(of.k, of.k, shared.pairs, shared.panels,
           [&](int i, int j, T product) { return of.beta_at(j) * product * of.pair(i, j); });
      Sums<T> read;
      add_read(read, of.k);
      Sums<T>::each([&](int e, int i, int m) {
        shared.columns[i][m] = of.v.or_zero(i, first_m + m) - read[e];
      });
      solve(false, chunk.keys, shared.pairs, shared.columns);
      Sums<T>::each([&](int, int i, int m) {
        if (saved.missed != nullptr && i < chunk.keys && first_m + m < M)
          saved.missed[(bh * shape.length + chunk.first + i) * M + first_m + m] =
              shared.columns[i][m];
        shared.columns[i][m] *= of.beta_at(i);
      });
      __syncthreads();
    }
    if (of.q.count > 0 && y.data != nullptr) {
      Sums<T> sum;
      add_read(sum, of.q);
      if (chunk.keys > 0) {
        dots(of.q, of.k, shared.pairs, shared.panels,
             [&](int i, int j, T product) { return product * of.pair(i, j); });
        // Rows of X grow with the earlier updates: a row that has overflowed must not even be
        // multiplied by 0.
        for (int j = 0; j <= core_row() + 8 && j < chunk.keys; ++j)
          Sums<T>::each([&](int e, int i, int m) {
            if (j <= i) sum[e] += shared.pairs[i][j] * shared.columns[j][m];
          });
      }
      Sums<T>::each([&](int e, int i, int m) {
        if (i < chunk.rows && first_m + m < M)
          y.at(bh)[(chunk.first + i) * M + first_m + m] = sum[e];
      });
    }
    __syncthreads();  // all reads of the state are done; it may change now
    if (saved.step > 0 && index + 1 == chunks) break;
    for (int64_t first_f = 0; first_f < F; first_f += kTile) {
      Sums<T> sum;
      add_product<Along::tile, Along::tile>(
          sum, chunk.keys, by_columns(of.k, first_f),
          [&](int m, int64_t i) { return shared.columns[i][m] * of.to_end(static_cast<int>(i)); },
          shared.panels);
      Sums<T>::each([&](int e, int row, int m) {
        const int64_t place = (first_f + row) * M + first_m + m;
        if (first_f + row < F && first_m + m < M)
          state[saved.step + place] = of.decayed(state[place]) + sum[e];
      });
    }
    __syncthreads();
  }
}

// dE [P,S,M], dV, and the gradient of the state after each chunk [P,chunks,F,M]; `dstate` is input
// and output.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    go_back(ChunkShape shape, int64_t chunks, DeltaInputs<T> in, T* dstate, T* left, T* dE,
            Strided<T> dv) {
  DeltaShared<T>& shared = DeltaShared<T>::take(shape.products);
  const int64_t bh = blockIdx.x, F = shape.features, M = shape.values;
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  T* state = dstate + bh * F * M;
  for (int64_t index = chunks - 1; index >= 0; --index) {
    const Chunk chunk = chunk_at(shape, {0, chunks}, bh * chunks + index);
    const DeltaChunk<T> of = in.of(shape, chunk);
    if (chunk.keys > 0) {
      dots(of.q, of.k, shared.pairs, shared.panels,
           [&](int i, int j, T product) { return j <= i ? product * of.pair(i, j) : T(0); });
      Sums<T> sum;
      add_product<Along::tile, Along::tile>(sum, chunk.rows, by_columns(shared.pairs),
                                            by_columns(of.dy, first_m), shared.panels);
      add_product<Along::terms, Along::tile>(
          sum, F, [&](int j, int64_t f) { return of.k.or_zero(j, f) * of.to_end(j); },
          by_columns(matrix_rows(state, F, M), first_m), shared.panels);
      Sums<T>::each([&](int e, int j, int m) { shared.columns[j][m] = sum[e]; });
      dots(of.k, of.k, shared.pairs, shared.panels,
           [&](int i, int j, T product) { return of.beta_at(i) * product * of.pair(i, j); });
      solve(true, chunk.keys, shared.pairs, shared.columns);
    }
    Sums<T>::each([&](int, int j, int col) {
      const int64_t m = first_m + col;
      if (j < chunk.rows && m < M) {
        const T written = j < chunk.keys ? shared.columns[j][col] : T(0),
                by = of.beta_at(j) * written;
        dE[(bh * shape.length + chunk.first + j) * M + m] = written;
        dv.at(bh)[(chunk.first + j) * M + m] = by;
        shared.columns[j][col] = by;
      }
    });
    __syncthreads();
    for (int64_t first_f = 0; first_f < F; first_f += kTile) {
      Sums<T> sum;
      // x, with its rows times `sign` exp(L_i)
      const auto columns = [&](const TileRows<T>& x, T sign) {
        return [&of, x, sign, first_f](int f, int64_t i) {
          const int row = static_cast<int>(i);
          return sign * x.or_zero(row, first_f + f) * of.from_start(row);
        };
      };
      add_product<Along::tile, Along::tile>(sum, chunk.keys, columns(of.k, T(-1)),
                                            by_columns(shared.columns), shared.panels);
      add_product<Along::tile, Along::tile>(sum, chunk.rows, columns(of.q, T(1)),
                                            by_columns(of.dy, first_m), shared.panels);
      Sums<T>::each([&](int e, int row, int col) {
        const int64_t place = (first_f + row) * M + first_m + col;
        if (first_f + row >= F || first_m + col >= M) return;
        left[chunk.slot * F * M + place] = state[place];
        state[place] = of.decayed(state[place]) + sum[e];
      });
    }
    __syncthreads();
  }
}

// The results of the two sweeps: the states before each chunk, the gradients of the states after
// it, R and dE.
template <typename T>
struct Swept {
  const T *state, *left, *missed, *dE;
};

// dq, dk of a tile of features, and dbeta.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    row_gradients(ChunkShape shape, int64_t chunks, DeltaInputs<T> in, Swept<T> swept, T* dq, T* dk,
                  Strided<T> dbeta) {
  DeltaShared<T>& shared = DeltaShared<T>::take(shape.products);
  Panels<T>& panels = shared.panels;
  const int64_t F = shape.features, M = shape.values,
                first_f = static_cast<int64_t>(blockIdx.y) * kTile;
  const Chunk chunk = chunk_at(shape, {0, chunks}, blockIdx.x);
  const DeltaChunk<T> of = in.of(shape, chunk);
  const int64_t row = chunk.bh * shape.length + chunk.first;
  const TileRows<T> missed = matrix_rows(swept.missed + row * M, chunk.keys, M),
                    dE = matrix_rows(swept.dE + row * M, chunk.keys, M);
  // P, and G
  dots(of.dy, missed, shared.pairs, panels,
       [&](int i, int j, T dot) { return j <= i ? of.beta_at(j) * dot * of.pair(i, j) : T(0); });
  dots(dE, missed, shared.columns, panels, [&](int i, int j, T dot) {
    return j < i ? of.beta_at(i) * of.beta_at(j) * dot * of.pair(i, j) : T(0);
  });
  const auto of_state = [&](const T* states) {
    return by_rows(matrix_rows(states + chunk.slot * F * M, F, M).from(first_f));
  };
  Sums<T> of_q, of_k;
  add_product<Along::terms, Along::terms>(
      of_q, M, [&](int i, int64_t m) { return of.dy.or_zero(i, m) * of.from_start(i); },
      of_state(swept.state), panels);
  add_product<Along::terms, Along::tile>(of_q, chunk.keys, by_rows(shared.pairs),
                                         by_columns(of.k, first_f), panels);
  add_product<Along::tile, Along::tile>(of_k, chunk.rows, by_columns(shared.pairs),
                                        by_columns(of.q, first_f), panels);
  add_product<Along::terms, Along::terms>(
      of_k, M,
      [&](int j, int64_t m) { return of.beta_at(j) * missed.or_zero(j, m) * of.to_end(j); },
      of_state(swept.left), panels);
  add_product<Along::terms, Along::terms>(
      of_k, M,
      [&](int j, int64_t m) { return -of.beta_at(j) * dE.or_zero(j, m) * of.from_start(j); },
      of_state(swept.state), panels);
  add_product<Along::terms, Along::tile>(
      of_k, chunk.keys,
      [&](int j, int64_t i) { return -(shared.columns[j][i] + shared.columns[i][j]); },
      by_columns(of.k, first_f), panels);
  Sums<T>::each([&](int e, int i, int col) {
    const int64_t f = first_f + col;
    if (i >= chunk.rows || f >= F) return;
    dq[(row + i) * F + f] = of_q[e];
    dk[(row + i) * F + f] = i < chunk.keys ? of_k[e] : T(0);
  });
  if (blockIdx.y > 0) return;
  for (int i = own_warp(); i < chunk.rows; i += kBlockWarps) {
    const T sum =
        WarpTeam{}.sum_of(M, [&](int64_t m) { return dE.or_zero(i, m) * missed.or_zero(i, m); });
    if (own_lane() == 0) dbeta.at(chunk.bh)[chunk.first + i] = sum;
  }
}

// dL_i = q_i.dq_i - k_i.dk_i + 2 (beta_i dbeta_i - v_i.dv_i)
template <typename T>
void decay_gradients(Context& ctx, const ChunkShape& shape, const DeltaInput<T>& in,
                     const DeltaGradients<T>& d) {
  const int64_t S = shape.length, F = shape.features, M = shape.values;
  for_each_team(ctx, shape.batch_heads * S, F + M, [=] __device__(auto team, int64_t row) {
    const int64_t bh = row / S, i = row % S;
    T sum = 0;
    const bool exists = i < valid_keys(shape.valid, bh, shape.first + S) - shape.first;
    for (int64_t f = team.rank(); f < F; f += team.kThreads) {
      sum += in.q[row * F + f] * d.q[row * F + f];
      if (exists) sum -= in.k[row * F + f] * d.k[row * F + f];
    }
    if (exists)
      for (int64_t m = team.rank(); m < M; m += team.kThreads)
        sum -= 2 * in.v.at(bh)[i * M + m] * d.v.at(bh)[i * M + m];
    sum = team.sum(sum);
    if (team.rank() == 0)
      d.log_decay.at(bh)[i] = exists ? sum + 2 * in.beta.at(bh)[i] * d.beta.at(bh)[i] : sum;
  });
}

// The sums L [BH,S] of log decays from the start of each chunk on; null without decays.
template <typename T>
const T* sum_decays(Context& ctx, const ChunkShape& shape, Strided<const T> log_decay, T* L) {
  if (log_decay.data == nullptr) return nullptr;
  const int64_t chunks = chunk_count(shape), S = shape.length;
  for_each(ctx, shape.batch_heads * chunks, [=] __device__(int64_t slot) {
    const int64_t bh = slot / chunks, first = slot % chunks * kTile;
    T sum = 0;
    for (int64_t i = first; i < S && i < first + kTile; ++i)
      L[bh * S + i] = sum += log_decay.at(bh)[i];
  });
  return L;
}

}  // namespace

template <typename T>
void delta_forward(Context& ctx, const ChunkShape& given, const DeltaInput<T>& in, T* state,
                   Strided<T> y) {
  if (!given.corrects || given.channel_decays) refuse_kernel("decay");
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  const int64_t BH = shape.batch_heads, F = shape.features, M = shape.values;
  if (F == 0 || M == 0 || BH == 0) return;
  const Workspace<T> sums(ctx, BH * shape.length);
  const T* const L = sum_decays(ctx, shape, in.log_decay, sums.data());
  launch_with<write_chunks<T>, DeltaShared<T>>(
      ctx, grid_of(BH, tiles_of(M)), shape, chunk_count(shape),
      DeltaInputs<T>{in, {}, {L, shape.length}}, Saved<T>{state, F * M, 0, nullptr}, y);
}

// Recomputes the states of the segment, one before each chunk.
template <typename T>
void delta_backward(Context& ctx, const ChunkShape& given, const DeltaInput<T>& given_in,
                    Strided<const T> dy, const T* state, T* dstate, const DeltaGradients<T>& d) {
  if (!given.corrects || given.channel_decays) refuse_kernel("decay");
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  const int64_t BH = shape.batch_heads, F = shape.features, M = shape.values, S = shape.length,
                chunks = chunk_count(shape);
  if (F == 0 || M == 0 || BH == 0 || chunks == 0) return;
  const Workspace<T> before(ctx, BH * chunks * F * M), left(ctx, BH * chunks * F * M),
      missed(ctx, BH * S * M), dE(ctx, BH * S * M), sums(ctx, BH * S);
  const T* const L = sum_decays(ctx, shape, given_in.log_decay, sums.data());
  const DeltaInputs<T> in{given_in, dy, {L, S}};
  T* const first = before.data();
  for_each(ctx, BH * F * M, [=] __device__(int64_t i) {
    first[i / (F * M) * chunks * F * M + i % (F * M)] = state[i];
  });
  const dim3 columns = grid_of(BH, tiles_of(M));
  launch_with<write_chunks<T>, DeltaShared<T>>(
      ctx, columns, shape, chunks, in, Saved<T>{first, chunks * F * M, F * M, missed.data()},
      Strided<T>{nullptr, 0});
  launch_with<go_back<T>, DeltaShared<T>>(ctx, columns, shape, chunks, in, dstate, left.data(),
                                          dE.data(), d.v);
  launch_with<row_gradients<T>, DeltaShared<T>>(
      ctx, grid_of(BH * chunks, tiles_of(F)), shape, chunks, in,
      Swept<T>{first, left.data(), missed.data(), dE.data()}, d.q, d.k, d.beta);
  if (L != nullptr) decay_gradients<T>(ctx, shape, given_in, d);
}

LINEA_REAL_KERNEL_TABLE(DeltaKernels, .delta_forward = delta_forward<T>,
                        .delta_backward = delta_backward<T>)

}  // namespace linea::cuda
