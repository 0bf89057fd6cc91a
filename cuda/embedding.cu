// Embeddings of tokens, positions and classes.
#include "cuda/kernel_tables.h"
#include "cuda/scatter.h"
#include "tensor/formulas.h"

namespace linea::cuda {
namespace {

template <typename T>
struct TokenRows {
  const int32_t* ids;
  const T* dy;
  int64_t R, C;
  __device__ int64_t count(int64_t) const { return R; }
  __device__ int64_t bin(int64_t, int64_t r) const { return ids[r]; }
  __device__ Accumulator<T> value(int64_t, int64_t r, int64_t c) const {
    return Accumulator<T>(dy[r * C + c]);
  }
};

}  // namespace

// y[r] = table[ids[r]]
template <typename T>
void embedding(Context& ctx, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const T* from = table + ids[r] * C;
    T* to = y + r * C;
    for (int64_t c = team.rank(); c < C; c += team.kThreads) to[c] = from[c];
  });
}

template <typename T>
void embed_position(Context& ctx, const Accumulator<T>* table, const int32_t* ids,
                    const Accumulator<T>* position_table, const int32_t* positions, T* y, int64_t R,
                    int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const Accumulator<T>*token = table + ids[r] * C, *position = position_table + positions[r] * C;
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      y[r * C + c] = T(token[c] + position[c]);
  });
}

// dtable[s] = sum of dy[r] where ids[r] = s
template <typename T>
void embedding_backward(Context& ctx, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t tokens, int64_t C) {
  using A = Accumulator<T>;
  scatter_sums<A>(
      ctx, {1, R, tokens, C}, TokenRows<T>{ids, dy, R, C},
      [=] __device__(int64_t token, int64_t c, A total) { dtable[token * C + c] = T(total); });
}

inline void class_index(Context& ctx, const int32_t* ids, const int32_t* positions, int32_t* index,
                        int64_t B, int64_t N, int64_t first, int64_t classes) {
  for_each(ctx, B * N, [=] __device__(int64_t i) {
    const int64_t b = i / N;
    if (positions == nullptr || positions[b] == 0) index[i] = class_row(ids[b * N], first, classes);
  });
}

LINEA_KERNEL_TABLE(EmbeddingKernels, .embedding = embedding<T>,
                   .embedding_backward = embedding_backward<T>, .embed_position = embed_position<T>,
                   .class_index = class_index)

}  // namespace linea::cuda
