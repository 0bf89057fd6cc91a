// The straight-through gradient of a key's hard code z_j: dk_j = sum_{i >= j} w_ij dw_ij q_i, which
// is that of k^_j = c_{z_j} in exp(q_i . k^_j). The state of each code is W = sum_i exp(a_if) q_i
// [n_i, e_i], D (M+1) elements in addition to the sums of chunk_backward_key.cu.
#include "cuda/chunk_backward.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// Rows q_i [n_i, e_i] of D (M+1).
template <typename T>
struct CodedValues {
  HeadRows<const T> queries, dy;
  int64_t D, M;
  const T *inverse, *grad;
  struct Of {
    TileRows<T> queries, dy;
    const T *inverse, *grad;
    __device__ T or_zero(int i, int64_t column) const {
      const int64_t M = dy.width, d = column / (M + 1), m = column % (M + 1);
      if (i >= queries.count || d >= queries.width) return T(0);
      return queries.or_zero(i, d) * (m == M ? grad[i] : dy.or_zero(i, m) * inverse[i]);
    }
  };
  __device__ Of of(const ChunkShape&, const Chunk& chunk, int count) const {
    return {tile_rows(queries, chunk.bh, chunk.first, count, D),
            tile_rows(dy, chunk.bh, chunk.first, count, M), inverse + chunk.entry,
            grad + chunk.entry};
  }
};

// The arguments for reading the codes of a chunk's keys.
template <typename T>
struct Codes {
  HeadRows<const T> queries;
  const int32_t* code;
  int64_t D;
  T* dk;
};

// dk of a chunk, 64 of its columns. `wide`: the shape of the states, with D (M+1) values.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    code_gradient(ChunkShape shape, ChunkShape wide, Group group, ChunkInput<T> in,
                  HeadRows<const T> dy, QueryTable<T> queries, States<T> states, Codes<T> codes) {
  __shared__ Panels<T> panels;
  __shared__ Square<T> square;
  __shared__ int32_t code[kTile];
  multiply_as(shape.products, panels);
  const Chunk chunk = chunk_at(shape, group, blockIdx.x);
  const Pieces<NumericMode::logs, T> of =
      pieces_of<NumericMode::logs>(shape, chunk, in, dy, KeyTable<T>{}, queries);
  const StateAt<T> later = state_at(states, wide, group, chunk);
  const int64_t M = shape.values, D = codes.D, first_d = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t row = chunk.bh * shape.length + chunk.first;
  const int keys = chunk.keys;
  if (threadIdx.x < kTile)
    code[threadIdx.x] = static_cast<int>(threadIdx.x) < keys
                            ? static_cast<int>(codes.code[row + threadIdx.x] % shape.features)
                            : 0;
  __syncthreads();

  Sums<T> sum;
  if (of.q.count > 0 && keys > 0) {
    Sums<T> product;
    add_product<Along::terms, Along::terms>(
        product, M, [&](int i, int64_t m) { return of.numerator(i, m); }, by_rows(of.v), panels);
    Sums<T>::each([&](int e, int i, int j) {
      T grad = 0;  // w_ij dw_ij
      if (j <= i && j < keys && i < of.q.count)
        grad = (product[e] + of.grad[i]) *
               exp_of(of.q.given(i, code[j]) - of.q.top[i] + of.query_offset[i]);
      square[i][j] = grad;
    });
    const TileRows<T> q = tile_rows(codes.queries, chunk.bh, chunk.first, of.q.count, D);
    add_product<Along::tile, Along::tile>(sum, of.q.count, by_columns(square),
                                          by_columns(q, first_d), panels);
  }
  // the codes' sums over later queries
  for (int e = own_warp(); e < keys * kTile; e += kBlockWarps) {
    const int j = e / kTile, d = e % kTile;
    const T scale = later.scale[code[j]];
    T read = 0;
    if (scale != kNothing<T> && first_d + d < D) {
      const T* running = later.state.data + code[j] * wide.values + (first_d + d) * (M + 1);
      read = exp_of(scale) * WarpTeam{}.sum_of(M + 1, [&](int64_t m) {
        return running[m] * (m == M ? T(1) : of.v.or_zero(j, m));
      });
    }
    if (own_lane() == 0) square[j][d] = read;
  }
  __syncthreads();
  Sums<T>::each([&](int e, int j, int d) {
    if (j < chunk.rows && first_d + d < D)
      codes.dk[(row + j) * D + first_d + d] = j < keys ? sum[e] + square[j][d] : T(0);
  });
}

}  // namespace

template <typename T>
void straight_through(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                      const T* queries, const int32_t* code, int64_t D, HeadRows<const T> dy,
                      const ChunkRows<T>& saved, Strided<const T> ddenominator,
                      const ChunkState<T>& grads, T* dk) {
  const ChunkShape shape = as_multiplied<T>(ctx, given);
  if (shape.batch_heads == 0) return;
  ChunkShape wide = shape;
  wide.values = D * (shape.values + 1);
  const bool updates = in.q.data != nullptr;
  const HeadRows<const T> rows = head_rows(queries, shape.length, D);
  Sweep<T> sweep(ctx, wide, true, true);
  sweep.each_group([&](const Group& group) {
    const int64_t slots = shape.batch_heads * group.chunks;
    const QueryTable<T>& table = sweep.queries;
    if (updates) {
      for_each_row(ctx, slots,
                   MakeQueries<NumericMode::logs, T>{shape, group, in.q, saved.denominator,
                                                     saved.scale, ddenominator, table});
      const CodedValues<T> x{rows, dy, D, shape.values, table.inverse, table.grad};
      sweep.template carry<NumericMode::logs>(
          ctx, wide, group,
          Update<T, CodedValues<T>>{in.q, x, table.top, table.offset, nullptr, false}, grads,
          false);
    }
    if (dk == nullptr) return;
    launch_blocks(ctx, grid_of(slots, tiles_of(D)), code_gradient<T>, shape, wide, group, in, dy,
                  updates ? table : QueryTable<T>{}, sweep.states(updates, grads),
                  Codes<T>{rows, code, D, dk});
  });
}

LINEA_REAL_KERNEL_TABLE(StraightThroughKernels, .straight_through = straight_through<T>)

}  // namespace linea::cuda
