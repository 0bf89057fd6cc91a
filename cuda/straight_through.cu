// The straight-through gradient of a key's hard code z_j: dk_j = sum_{i >= j} w_ij dw_ij q_i, which
// is that of k^_j = c_{z_j} in exp(q_i . k^_j). The state of each code is W = sum_i exp(a_if) q_i
// [n_i, e_i], D (M+1) elements in addition to the sums of chunk_backward_key.cu.
#include "cuda/chunk_backward.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {
namespace {

// Rows q_i [n_i, e_i] of D (M+1).
template <typename T>
struct CodedValues {
  using A = Accumulator<T>;
  const T* queries;
  int64_t length, D, M;
  HeadRows<const T> dy;
  const A *inverse, *grad;
  struct Of {
    const T* queries;
    int64_t D, M;
    const T* dy;
    int64_t stride;
    const A *inverse, *grad;
    int count;
    __device__ A or_zero(int i, int64_t column) const {
      const int64_t d = column / (M + 1), m = column % (M + 1);
      if (i >= count || d >= D) return A(0);
      return A(queries[i * D + d]) * (m == M ? grad[i] : A(dy[i * stride + m]) * inverse[i]);
    }
  };
  __device__ Of of(const ChunkShape&, const Chunk& chunk, int count) const {
    return {queries + (chunk.bh * length + chunk.first) * D,
            D,
            M,
            dy.at(chunk.bh, chunk.first),
            dy.row,
            inverse + chunk.entry,
            grad + chunk.entry,
            count};
  }
};

// The arguments for reading the codes of a chunk's keys.
template <typename T>
struct Codes {
  const T* queries;
  const int32_t* code;
  int64_t D;
  T* dk;
};

// dk of a chunk, 64 of its columns. `wide`: the shape of the states, with D (M+1) values.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    code_gradient(ChunkShape shape, ChunkShape wide, Group group, ChunkInput<T> in,
                  HeadRows<const T> dy, QueryTable<Accumulator<T>> queries,
                  States<Accumulator<T>> states, Codes<T> codes) {
  using A = Accumulator<T>;
  __shared__ Panels<A> panels;
  __shared__ Square<A> square;
  __shared__ int32_t code[kTile];
  multiply_as(shape.products, panels);
  const Chunk chunk = chunk_at(shape, group, blockIdx.x);
  const Pieces<NumericMode::logs, T> of =
      pieces_of<NumericMode::logs>(shape, chunk, in, dy, KeyTable<A>{}, queries);
  const StateAt<A> later = state_at(states, wide, group, chunk);
  const int64_t M = shape.values, D = codes.D, first_d = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t row = chunk.bh * shape.length + chunk.first;
  const int keys = chunk.keys;
  if (threadIdx.x < kTile)
    code[threadIdx.x] = static_cast<int>(threadIdx.x) < keys
                            ? static_cast<int>(codes.code[row + threadIdx.x] % shape.features)
                            : 0;
  __syncthreads();

  Sums<A> sum;
  if (of.q.count > 0 && keys > 0) {
    Sums<A> product;
    add_product<Along::terms, Along::terms>(
        product, M, [&](int i, int64_t m) { return of.numerator(i, m); },
        [&](int j, int64_t m) { return of.v.or_zero(j, m); }, panels);
    Sums<A>::each([&](int e, int i, int j) {
      A grad = 0;  // w_ij dw_ij
      if (j <= i && j < keys && i < of.q.count)
        grad = (product[e] + of.grad[i]) *
               exp_of(of.q.given(i, code[j]) - of.q.top[i] + of.query_offset[i]);
      square[i][j] = grad;
    });
    add_product<Along::tile, Along::tile>(
        sum, of.q.count, [&](int j, int64_t i) { return square[i][j]; },
        [&](int d, int64_t i) {
          return first_d + d < D ? A(codes.queries[(row + i) * D + first_d + d]) : A(0);
        },
        panels);
  }
  // the codes' sums over later queries
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int e = static_cast<int>(threadIdx.x) / kWarp; e < keys * kTile;
       e += kBlockThreads / kWarp) {
    const int j = e / kTile, d = e % kTile;
    const A scale = later.scale[code[j]];
    A read = 0;
    if (scale != kNothing<A> && first_d + d < D) {
      const A* running = later.state + code[j] * wide.values + (first_d + d) * (M + 1);
      for (int64_t m = lane; m <= M; m += kWarp)
        read += running[m] * (m == M ? A(1) : of.v.or_zero(j, m));
      read = exp_of(scale) * warp_sum(read);
    }
    if (lane == 0) square[j][d] = read;
  }
  __syncthreads();
  Sums<A>::each([&](int e, int j, int d) {
    if (j < chunk.rows && first_d + d < D)
      codes.dk[(row + j) * D + first_d + d] = T(j < keys ? sum[e] + square[j][d] : A(0));
  });
}

}  // namespace

template <typename T>
void straight_through(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                      const T* queries, const int32_t* code, int64_t D, HeadRows<const T> dy,
                      const ChunkRows<Accumulator<T>>& saved,
                      Strided<const Accumulator<T>> ddenominator,
                      const ChunkState<Accumulator<T>>& grads, T* dk) {
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  using A = Accumulator<T>;
  if (shape.batch_heads == 0) return;
  ChunkShape wide = shape;
  wide.values = D * (shape.values + 1);
  const bool updates = in.q.data != nullptr;
  Sweep<T> sweep(ctx, wide, true);
  for (int64_t last = sweep.count(); last > 0;) {
    const Group group = sweep.until(last);
    last = group.first;
    const int64_t slots = shape.batch_heads * group.chunks;
    const QueryTable<A>& table = sweep.queries;
    if (updates) {
      for_each_row(ctx, slots,
                   MakeQueries<NumericMode::logs, T>{shape, group, in.q, saved.denominator,
                                                     saved.scale, ddenominator, table});
      const CodedValues<T> x{queries, shape.length, D, shape.values, dy, table.inverse, table.grad};
      sweep.template carry<NumericMode::logs>(
          ctx, wide, group,
          Update<T, CodedValues<T>>{in.q, x, table.top, table.offset, nullptr, false},
          sweep.direction(shape, true), grads, false);
    }
    if (dk == nullptr) continue;
    launch(code_gradient<T>, dim3(static_cast<unsigned>(slots), static_cast<unsigned>(tiles_of(D))),
           dim3(kBlockThreads), 0, stream(ctx), shape, wide, group, in, dy,
           updates ? table : QueryTable<A>{}, sweep.states(updates, grads, -1),
           Codes<T>{queries, code, D, dk});
  }
}

LINEA_REAL_KERNEL_TABLE(StraightThroughKernels, .straight_through = straight_through<T>)

}  // namespace linea::cuda
