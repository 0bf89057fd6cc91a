// The backward sweep: dk and dv from the gradients of the states. Formulas in
// tensor/cpu/chunk_backward.h.
#include <numeric>

#include "tensor/cpu/chunk_backward.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

// Contribution of later chunks: dk = w (v R^T + r), dv = w k R, w the weight of a key in the
// states.
template <typename T>
void read_gradients(const ChunkWork<T>& chunk, const Reading<T>& later, T* dk,
                    const Strided<T>& dv) {
  const int64_t F = chunk.shape.features, M = chunk.shape.values;
  const Rows<T>& k = chunk.k;
  multiply_transposed(k.count, F, M, chunk.v, later.state, dk, false, chunk.arena, chunk.rounded);
  multiply(chunk.rounded, {k.count, M, F}, plain(later.features, F), plain(later.state, M), dv,
           false, chunk.arena);
  for (int64_t j = 0; j < k.count; ++j) {
    T* dk_j = dk + j * F;
    add_row(later.key_sum, dk_j, F, T(1));
    if (later.scale == nullptr) continue;
    const T weight = factor(later.scale[j], -k.offset[j]);
    scale_row(dk_j, F, weight);
    scale_row(dv.at(j), M, weight);
  }
}

// dk, dv and, where requested, the gradient of the keys' weights, of one chunk.
template <typename T>
void key_gradient(ChunkWork<T> chunk, const QueryRows<T>& q, const T* e, const Reading<T>& later,
                  T* dk, const Strided<T>& dv, T* dweight) {
  const int64_t F = chunk.shape.features, M = chunk.shape.values, K = chunk.keys;
  const Rows<T>& k = chunk.k;
  Arena<T>& arena = chunk.arena;
  const int64_t read = later.state == nullptr ? 0 : K;  // rows that later chunks write
  std::fill(dk + read * F, dk + chunk.rows * F, T(0));
  for (int64_t j = read; j < chunk.rows; ++j) std::fill_n(dv.at(j), M, T(0));
  if (dweight != nullptr) std::fill(dweight + K, dweight + chunk.rows, T(0));
  if (K == 0) return;

  if (read > 0) read_gradients(chunk, later, dk, dv);
  T* const inside = gradient_inside(later, dk, K * F, arena);
  T* products = nullptr;
  if (q.numerator != nullptr) {
    const T* visible = visible_of(q, chunk);
    products = arena.take(chunk.rows * K);  // dw_ij
    T* seen = visible == nullptr ? products : arena.take(chunk.rows * K);
    band_products(chunk, M, {q.numerator, M}, chunk.v, products, arena);
    add_denominator_gradients(e, visible, chunk, products, seen);
    add_future(chunk, F, seen, {q.rows.features, F}, inside, F);
    band_products(chunk, F, {q.rows.features, F}, {k.features, F}, seen, arena);
    apply_visible(visible, chunk, seen);
    add_future(chunk, M, seen, {q.numerator, M}, dv.data, dv.stride);
  }
  if (k.logs != nullptr) multiply_rows(k.features, inside, K * F);
  if (later.own_features) add_row(inside, dk, K * F, T(1));
  for (int64_t i = 0; q.by_logs != nullptr && i < chunk.rows; ++i) {
    if (!q.by_logs[i]) continue;
    for (int64_t j = 0; j < std::min(i + 1, K); ++j) {
      const T grad = products[i * K + j];
      T whole = 0;
      each_weight(q, k, i, j, [&](int64_t f, T w) {
        dk[j * F + f] += w * grad;
        whole += w;
      });
      add_row(q.numerator + i * M, dv.at(j), M, whole);
    }
  }
  if (dweight == nullptr) return;
  for (int64_t j = 0; j < K; ++j) {
    T total = 0;
    if (k.logs == nullptr)
      total = dot(k.features + j * F, dk + j * F, F);
    else
      for (int64_t f = 0; f < F; ++f) total += dk[j * F + f];
    dweight[j] = total;
  }
}

}  // namespace

template <typename T>
void chunk_backward_key(Context& ctx, const ChunkShape& given, const ChunkInput<T>& in,
                        HeadRows<const T> dy, const ChunkRows<T>& saved,
                        Strided<const T> ddenominator, const ChunkState<T>& grads, HeadRows<T> dk,
                        Strided<T> dweight, HeadRows<T> dv) {
  const ChunkShape shape = with_products(ctx, given, in);
  const int64_t F = shape.features, M = shape.values;
  const bool reads = in.k.data != nullptr, updates = in.q.data != nullptr;
  each_chunk(ctx, shape, grads, M, chunk_workspace(shape), true,
             [&](ChunkWork<T> chunk, StateAccumulator<T>& running) {
               const int64_t bh = chunk.bh, first = chunk.first;
               if (reads)
                 chunk.take_keys(in, grads.scale != nullptr);
               else if (const T* decay = in.decay.at(bh, first); decay != nullptr)
                 running.decay(std::accumulate(decay, decay + chunk.rows, T(0)));
               const T* e = updates ? ddenominator.at(bh, first) : nullptr;
               const QueryRows<T> q = updates ? queries_of(chunk, in, dy, saved) : QueryRows<T>{};
               if (reads) {
                 running.decay(chunk.k.decay);
                 ChunkWork<T> mine = chunk;
                 const Reading<T> later = running.read(chunk.k, chunk.empty, mine.arena);
                 T* gradient = mine.arena.take(chunk.rows * F);
                 key_gradient(mine, q, e, later, gradient, {dv.at(bh, first), dv.row},
                              dweight.at(bh, first));
                 write_gradient(shape, chunk.k.features, gradient, dk, bh, first, chunk.keys);
                 for (int64_t j = chunk.keys; j < chunk.rows; ++j)
                   std::fill_n(dk.at(bh, first + j), F, T(0));
               }
               if (updates && !chunk.last)
                 running.accumulate(q.rows, {q.numerator, M}, e, chunk.arena);
             });
}

LINEA_KERNEL_TABLE(ChunkBackwardKeyKernels, .chunk_backward_key = chunk_backward_key<T>)

}  // namespace linea::cpu
