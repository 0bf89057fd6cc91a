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
#include "cuda/delta_inputs.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {
namespace {

// to[i][j] = value(i, j, x_i . z_j)
template <typename T, typename A, typename Value>
__device__ void dots(const ChunkOf<T>& x, const ChunkOf<T>& z, SquareRows<A> to, Panels<A>& panels,
                     const Value& value) {
  Sums<A> product;
  add_product<Along::terms, Along::terms>(
      product, x.width, [&](int i, int64_t f) { return x.at(i, f); },
      [&](int j, int64_t f) { return z.at(j, f); }, panels);
  Sums<A>::each([&](int e, int i, int j) { to[i][j] = value(i, j, product[e]); });
  __syncthreads();
}

// sum += x S, for a tile of S's columns, with row i of x times factor(i).
template <typename T, typename A, typename Factor>
__device__ void add_read(Sums<A>& sum, const ChunkOf<T>& x, const Factor& factor, const A* state,
                         int64_t M, int64_t first_m, Panels<A>& panels) {
  add_product<Along::terms, Along::tile>(
      sum, x.width, [&](int i, int64_t f) { return x.at(i, f) * factor(i); },
      [&](int m, int64_t f) { return first_m + m < M ? state[f * M + first_m + m] : A(0); },
      panels);
}

// The states of a (batch, head)'s chunks, `step` elements apart (0: a single state, updated in
// place), and R [P,S,M] if it is saved.
template <typename A>
struct Saved {
  A* state;
  int64_t bh, step;
  A* missed;
};

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    write_chunks(ChunkShape shape, int64_t chunks, Inputs<T> in, Saved<Accumulator<T>> saved,
                 Strided<T> y) {
  using A = Accumulator<T>;
  const Shared<A> shared = Shared<A>::take(shape.products);
  Panels<A>& panels = *shared.panels;
  const int64_t bh = blockIdx.x, F = shape.features, M = shape.values;
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  for (int64_t index = 0; index < chunks; ++index) {
    const Chunk chunk = chunk_at(shape, {0, chunks}, bh * chunks + index);
    const A* state = saved.state + bh * saved.bh + index * saved.step;
    const ChunkOf<T> k = in.keys(shape, chunk);
    const auto from_start = [&](int i) { return in.from_start(shape, chunk, i); };
    if (chunk.keys > 0) {
      dots(k, k, shared.pairs, panels, [&](int i, int j, A product) {
        return in.beta_at(chunk, j) * product * in.pair(shape, chunk, i, j);
      });
      Sums<A> read;
      add_read(read, k, from_start, state, M, first_m, panels);
      const ChunkOf<T> v{in.v.at(bh) + chunk.first * M, M, chunk.keys};
      Sums<A>::each(
          [&](int e, int i, int m) { shared.columns[i][m] = v.at(i, first_m + m) - read[e]; });
      solve(false, chunk.keys, shared.pairs, shared.columns);
      Sums<A>::each([&](int, int i, int m) {
        if (saved.missed != nullptr && i < chunk.keys && first_m + m < M)
          saved.missed[(bh * shape.length + chunk.first + i) * M + first_m + m] =
              shared.columns[i][m];
        shared.columns[i][m] *= in.beta_at(chunk, i);
      });
      __syncthreads();
    }
    if (in.q != nullptr && y.data != nullptr) {
      const ChunkOf<T> q = in.queries(shape, chunk);
      Sums<A> sum;
      add_read(sum, q, from_start, state, M, first_m, panels);
      if (chunk.keys > 0) {
        dots(q, k, shared.pairs, panels,
             [&](int i, int j, A product) { return product * in.pair(shape, chunk, i, j); });
        // Rows of X grow with the earlier updates: a row that has overflowed must not even be
        // multiplied by 0.
        for (int j = 0; j <= core_row() + 8 && j < chunk.keys; ++j)
          Sums<A>::each([&](int e, int i, int m) {
            if (j <= i) sum[e] += shared.pairs[i][j] * shared.columns[j][m];
          });
      }
      Sums<A>::each([&](int e, int i, int m) {
        if (i < chunk.rows && first_m + m < M)
          y.at(bh)[(chunk.first + i) * M + first_m + m] = T(sum[e]);
      });
    }
    __syncthreads();  // all reads of the state are done; it may change now
    if (saved.step > 0 && index + 1 == chunks) break;
    A* next = saved.state + bh * saved.bh + (index + 1) * saved.step;
    for (int64_t first_f = 0; first_f < F; first_f += kTile) {
      Sums<A> sum;
      add_product<Along::tile, Along::tile>(
          sum, chunk.keys, [&](int f, int64_t i) { return k.at(static_cast<int>(i), first_f + f); },
          [&](int m, int64_t i) {
            return shared.columns[i][m] * in.to_end(shape, chunk, static_cast<int>(i));
          },
          panels);
      Sums<A>::each([&](int e, int row, int m) {
        const int64_t place = (first_f + row) * M + first_m + m;
        if (first_f + row < F && first_m + m < M)
          next[place] = in.decayed(shape, chunk, state[place]) + sum[e];
      });
    }
    __syncthreads();
  }
}

// dE [P,S,M], dV, and the gradient of the state after each chunk [P,chunks,F,M]; `dstate` is input
// and output.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    go_back(ChunkShape shape, int64_t chunks, Inputs<T> in, Strided<const T> dy,
            Accumulator<T>* dstate, Accumulator<T>* left, Accumulator<T>* dE, Strided<T> dv) {
  using A = Accumulator<T>;
  const Shared<A> shared = Shared<A>::take(shape.products);
  Panels<A>& panels = *shared.panels;
  const int64_t bh = blockIdx.x, F = shape.features, M = shape.values;
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile;
  A* state = dstate + bh * F * M;
  for (int64_t index = chunks - 1; index >= 0; --index) {
    const Chunk chunk = chunk_at(shape, {0, chunks}, bh * chunks + index);
    const ChunkOf<T> q = in.queries(shape, chunk), k = in.keys(shape, chunk);
    const ChunkOf<T> grad{dy.at(bh) + chunk.first * M, M, chunk.rows};
    if (chunk.keys > 0) {
      dots(q, k, shared.pairs, panels, [&](int i, int j, A product) {
        return j <= i ? product * in.pair(shape, chunk, i, j) : A(0);
      });
      Sums<A> sum;
      add_product<Along::tile, Along::tile>(
          sum, chunk.rows, [&](int j, int64_t i) { return shared.pairs[i][j]; },
          [&](int m, int64_t i) { return grad.at(static_cast<int>(i), first_m + m); }, panels);
      add_read(
          sum, k, [&](int j) { return in.to_end(shape, chunk, j); }, state, M, first_m, panels);
      Sums<A>::each([&](int e, int j, int m) { shared.columns[j][m] = sum[e]; });
      dots(k, k, shared.pairs, panels, [&](int i, int j, A product) {
        return in.beta_at(chunk, i) * product * in.pair(shape, chunk, i, j);
      });
      solve(true, chunk.keys, shared.pairs, shared.columns);
    }
    Sums<A>::each([&](int, int j, int col) {
      const int64_t m = first_m + col;
      if (j < chunk.rows && m < M) {
        const A written = j < chunk.keys ? shared.columns[j][col] : A(0),
                by = in.beta_at(chunk, j) * written;
        dE[(bh * shape.length + chunk.first + j) * M + m] = written;
        dv.at(bh)[(chunk.first + j) * M + m] = T(by);
        shared.columns[j][col] = by;
      }
    });
    __syncthreads();
    for (int64_t first_f = 0; first_f < F; first_f += kTile) {
      Sums<A> sum;
      add_product<Along::tile, Along::tile>(
          sum, chunk.keys,
          [&](int f, int64_t j) {
            const int row = static_cast<int>(j);
            return -k.at(row, first_f + f) * in.from_start(shape, chunk, row);
          },
          [&](int m, int64_t j) { return shared.columns[j][m]; }, panels);
      add_product<Along::tile, Along::tile>(
          sum, chunk.rows,
          [&](int f, int64_t i) {
            const int row = static_cast<int>(i);
            return q.at(row, first_f + f) * in.from_start(shape, chunk, row);
          },
          [&](int m, int64_t i) { return grad.at(static_cast<int>(i), first_m + m); }, panels);
      Sums<A>::each([&](int e, int row, int col) {
        const int64_t place = (first_f + row) * M + first_m + col;
        if (first_f + row >= F || first_m + col >= M) return;
        left[chunk.slot * F * M + place] = state[place];
        state[place] = in.decayed(shape, chunk, state[place]) + sum[e];
      });
    }
    __syncthreads();
  }
}

// The results of the two sweeps: the states before each chunk, the gradients of the states after
// it, R and dE.
template <typename A>
struct Swept {
  const A *state, *left, *missed, *dE;
};

// dq, dk of a tile of features, and dbeta.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    row_gradients(ChunkShape shape, int64_t chunks, Inputs<T> in, Strided<const T> dy,
                  Swept<Accumulator<T>> swept, T* dq, T* dk, Strided<T> dbeta) {
  using A = Accumulator<T>;
  const Shared<A> shared = Shared<A>::take(shape.products);
  Panels<A>& panels = *shared.panels;
  const int64_t F = shape.features, M = shape.values,
                first_f = static_cast<int64_t>(blockIdx.y) * kTile;
  const Chunk chunk = chunk_at(shape, {0, chunks}, blockIdx.x);
  const int64_t row = chunk.bh * shape.length + chunk.first;
  const ChunkOf<T> q = in.queries(shape, chunk), k = in.keys(shape, chunk);
  const ChunkOf<T> grad{dy.at(chunk.bh) + chunk.first * M, M, chunk.rows};
  const ChunkOf<A> missed{swept.missed + row * M, M, chunk.keys},
      dE{swept.dE + row * M, M, chunk.keys};
  const A *state = swept.state + chunk.slot * F * M, *left = swept.left + chunk.slot * F * M;
  // P, and G
  Sums<A> product;
  add_product<Along::terms, Along::terms>(
      product, M, [&](int i, int64_t m) { return grad.at(i, m); },
      [&](int j, int64_t m) { return missed.at(j, m); }, panels);
  Sums<A>::each([&](int e, int i, int j) {
    shared.pairs[i][j] =
        j <= i ? in.beta_at(chunk, j) * product[e] * in.pair(shape, chunk, i, j) : A(0);
  });
  dots(dE, missed, shared.columns, panels, [&](int i, int j, A dot) {
    return j < i ? in.beta_at(chunk, i) * in.beta_at(chunk, j) * dot * in.pair(shape, chunk, i, j)
                 : A(0);
  });
  const auto feature = [&](const ChunkOf<T>& x) {
    return [&x, first_f](int f, int64_t i) { return x.at(static_cast<int>(i), first_f + f); };
  };
  const auto of_state = [&](const A* S) {
    return [S, F, M, first_f](int f, int64_t m) {
      return first_f + f < F ? S[(first_f + f) * M + m] : A(0);
    };
  };
  Sums<A> of_q, of_k;
  add_product<Along::terms, Along::terms>(
      of_q, M, [&](int i, int64_t m) { return grad.at(i, m) * in.from_start(shape, chunk, i); },
      of_state(state), panels);
  add_product<Along::terms, Along::tile>(
      of_q, chunk.keys, [&](int i, int64_t j) { return shared.pairs[i][j]; }, feature(k), panels);
  add_product<Along::tile, Along::tile>(
      of_k, chunk.rows, [&](int j, int64_t i) { return shared.pairs[i][j]; }, feature(q), panels);
  add_product<Along::terms, Along::terms>(
      of_k, M,
      [&](int j, int64_t m) {
        return in.beta_at(chunk, j) * missed.at(j, m) * in.to_end(shape, chunk, j);
      },
      of_state(left), panels);
  add_product<Along::terms, Along::terms>(
      of_k, M,
      [&](int j, int64_t m) {
        return -in.beta_at(chunk, j) * dE.at(j, m) * in.from_start(shape, chunk, j);
      },
      of_state(state), panels);
  add_product<Along::terms, Along::tile>(
      of_k, chunk.keys,
      [&](int j, int64_t i) { return -(shared.columns[j][i] + shared.columns[i][j]); }, feature(k),
      panels);
  Sums<A>::each([&](int e, int i, int col) {
    const int64_t f = first_f + col;
    if (i >= chunk.rows || f >= F) return;
    dq[(row + i) * F + f] = T(of_q[e]);
    dk[(row + i) * F + f] = T(i < chunk.keys ? of_k[e] : A(0));
  });
  if (blockIdx.y > 0) return;
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < chunk.rows; i += kBlockThreads / kWarp) {
    A sum = 0;
    for (int64_t m = threadIdx.x % kWarp; m < M; m += kWarp) sum += dE.at(i, m) * missed.at(i, m);
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) dbeta.at(chunk.bh)[chunk.first + i] = T(sum);
  }
}

}  // namespace

template <typename T>
void delta_forward(Context& ctx, const ChunkShape& given, const DeltaInput<T>& inputs,
                   Accumulator<T>* state, Strided<T> y) {
  if (!given.corrects || given.channel_decays) refuse_kernel("decay");
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  using A = Accumulator<T>;
  const int64_t F = shape.features, M = shape.values;
  if (F == 0 || M == 0 || shape.batch_heads == 0) return;
  const DecaySums<T> sums(ctx, shape, inputs.log_decay);
  launch_large<A>(ctx, write_chunks<T>, dim3(blocks(shape.batch_heads), blocks(tiles_of(M))), shape,
                  chunk_count(shape), Inputs<T>(inputs, sums.data()),
                  Saved<A>{state, F * M, 0, nullptr}, y);
}

// Recomputes the states of the segment, one before each chunk.
template <typename T>
void delta_backward(Context& ctx, const ChunkShape& given, const DeltaInput<T>& inputs,
                    Strided<const T> dy, const Accumulator<T>* state, Accumulator<T>* dstate,
                    const DeltaGradients<T>& d) {
  if (!given.corrects || given.channel_decays) refuse_kernel("decay");
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  using A = Accumulator<T>;
  const int64_t BH = shape.batch_heads, F = shape.features, M = shape.values,
                chunks = chunk_count(shape);
  if (F == 0 || M == 0 || BH == 0 || chunks == 0) return;
  const int64_t states = BH * chunks * F * M, rows = BH * shape.length * M;
  const Workspace<A> before(ctx, states), left(ctx, states), missed(ctx, rows), dE(ctx, rows);
  const DecaySums<T> sums(ctx, shape, inputs.log_decay);
  const Inputs<T> in(inputs, sums.data());
  const dim3 columns(blocks(BH), blocks(tiles_of(M)));
  A* const first = before.data();
  for_each(ctx, BH * F * M, [=] __device__(int64_t i) {
    first[i / (F * M) * chunks * F * M + i % (F * M)] = state[i];
  });
  launch_large<A>(ctx, write_chunks<T>, columns, shape, chunks, in,
                  Saved<A>{first, chunks * F * M, F * M, missed.data()}, Strided<T>{nullptr, 0});
  launch_large<A>(ctx, go_back<T>, columns, shape, chunks, in, dy, dstate, left.data(), dE.data(),
                  d.v);
  launch_large<A>(ctx, row_gradients<T>, dim3(blocks(BH * chunks), blocks(tiles_of(F))), shape,
                  chunks, in, dy, Swept<A>{first, left.data(), missed.data(), dE.data()}, d.q, d.k,
                  d.beta);
  if (inputs.log_decay.data != nullptr) decay_gradients<T>(ctx, shape, in, d);
}

LINEA_REAL_KERNEL_TABLE(DeltaKernels, .delta_forward = delta_forward<T>,
                        .delta_backward = delta_backward<T>)

}  // namespace linea::cuda
