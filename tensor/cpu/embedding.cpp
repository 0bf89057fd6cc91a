// Embeddings of tokens, positions and classes.
#include <algorithm>

#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"
#include "tensor/formulas.h"

namespace linea::cpu {

// y[r] = table[ids[r]]
template <typename T>
void embedding(Context& ctx, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C) {
  parallel_rows(ctx, R, C, [&](int64_t r) { std::copy_n(table + ids[r] * C, C, y + r * C); });
}

template <typename T>
void embed_position(Context& ctx, const T* table, const int32_t* ids, const T* position_table,
                    const int32_t* positions, T* y, int64_t R, int64_t C) {
  parallel_rows(ctx, R, C, [&](int64_t r) {
    const T* position = position_table + positions[r] * C;
    std::transform(position, position + C, table + ids[r] * C, y + r * C, std::plus<T>());
  });
}

// dtable[v] = sum of dy[r] over ids[r] = v. Each thread owns a range of columns and visits the rows
// in order: no atomics, the same bits at any number of threads.
template <typename T>
void embedding_backward(Context& ctx, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t V, int64_t C) {
  std::fill_n(dtable, V * C, T(0));
  parallel_ranges(ctx, C, R, [&](int64_t first, int64_t last) {
    for (int64_t r = 0; r < R; ++r)
      add_row(dy + r * C + first, dtable + ids[r] * C + first, last - first, T(1));
  });
}

namespace {

void class_index(Context& ctx, const int32_t* ids, const int32_t* positions, int32_t* index,
                 int64_t B, int64_t N, int64_t first, int64_t classes) {
  parallel_rows(ctx, B, N, [&](int64_t b) {
    if (positions == nullptr || positions[b] == 0)
      std::fill_n(index + b * N, N, class_row(ids[b * N], first, classes));
  });
}

}  // namespace

LINEA_KERNEL_TABLE(EmbeddingKernels, .embedding = embedding<T>,
                   .embedding_backward = embedding_backward<T>, .embed_position = embed_position<T>,
                   .class_index = class_index)

}  // namespace linea::cpu
