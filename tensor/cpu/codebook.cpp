// Features from a codebook c [H,F,D] (nn/attention/soft_vq.cpp, vq.cpp) except for matrix products;
// and the straight-through gradient of hard codes.
#include "tensor/cpu/blas.h"
#include "tensor/cpu/chunk_backward.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
// u_f = k.c_f becomes b_f = g_f - log sum exp g, g_f = (u_f - |c_f|^2 / 2) / t
template <typename T>
void mixture_logs(Context& ctx, const HeadShape& shape, const T* codebook, const T* t, T* u) {
  const int64_t F = shape.features, D = shape.key_size;
  const int64_t cost = F * (D + 16 * shape.rows);
  parallel_arenas<T>(ctx, shape.batch_heads, cost, F, [&](int64_t bh, Arena<T> arena) {
    const T* codes = codebook + shape.head(bh) * F * D;
    T* half = arena.take(F);
    for (int64_t f = 0; f < F; ++f) half[f] = dot(codes + f * D, codes + f * D, D) / T(2);
    const T inverse = T(1) / *t;
    for (int64_t row = 0; row < shape.rows; ++row) {
      T* logs = u + (bh * shape.rows + row) * F;
      for (int64_t f = 0; f < F; ++f) logs[f] = (logs[f] - half[f]) * inverse;
      const T max = largest(logs, F);
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t f = 0; f < F; ++f) sum += exp_of(logs[f] - max);
      const T all = max + std::log(sum);
      for (int64_t f = 0; f < F; ++f) logs[f] -= all;
    }
  });
}

// dg_f = db_f - exp(b_f) sum db;  du = dg / t;  dt = -sum_f dg_f g_f / t = -sum_f du_f b_f, as sum
// dg = 0
template <typename T>
void mixture_logs_backward(Context& ctx, const HeadShape& shape, const T* t, const T* logs,
                           T* dlogs, T* dt) {
  const int64_t F = shape.features;
  parallel_items(ctx, shape.batch_heads, 16 * F * shape.rows, [&](int64_t bh, int) {
    T all = 0;
    const T inverse = T(1) / *t;
    for (int64_t row = 0; row < shape.rows; ++row) {
      const T* b = logs + (bh * shape.rows + row) * F;
      T* grad = dlogs + (bh * shape.rows + row) * F;
      T total = 0;
      for (int64_t f = 0; f < F; ++f) total += grad[f];
      for (int64_t f = 0; f < F; ++f) {
        const T share = exp_of(b[f]);
        grad[f] = (grad[f] - share * total) * inverse;
        all += grad[f] == T(0) ? T(0) : grad[f] * b[f];
      }
    }
    dt[bh] -= all;
  });
}

// One thread adds all bh of a head, in order.
template <typename T>
void add_to_heads(Context& ctx, const HeadShape& shape, const T* x, const T* du, const T* codebook,
                  T* dcodebook) {
  const int64_t F = shape.features, D = shape.key_size;
  parallel_items(ctx, shape.heads, kGrain, [&](int64_t head, int) {
    T* into = dcodebook + head * F * D;
    for (int64_t bh = 0; bh < shape.batch_heads; ++bh) {
      if (shape.head(bh) != head) continue;
      add_row(x + bh * F * D, into, F * D, T(1));
      for (int64_t f = 0; du != nullptr && f < F; ++f) {
        T total = 0;
        for (int64_t row = 0; row < shape.rows; ++row) total += du[(bh * shape.rows + row) * F + f];
        add_row(codebook + (head * F + f) * D, into + f * D, D, -total);
      }
    }
  });
}

template <typename T>
void nearest_code(Context& ctx, const HeadShape& shape, const T* x, const T* codebook,
                  int32_t* code) {
  const int64_t F = shape.features, D = shape.key_size;
  parallel_items(ctx, shape.batch_heads, shape.rows * F * D, [&](int64_t bh, int) {
    const int64_t first = shape.head(bh) * F;
    const T* codes = codebook + first * D;
    for (int64_t row = 0; row < shape.rows; ++row) {
      const T* point = x + (bh * shape.rows + row) * D;
      T min = std::numeric_limits<T>::infinity();
      int64_t best = 0;
      for (int64_t f = 0; f < F; ++f) {
        T distance = 0;
#pragma omp simd reduction(+ : distance)
        for (int64_t d = 0; d < D; ++d)
          distance += (point[d] - codes[f * D + d]) * (point[d] - codes[f * D + d]);
        if (distance < min) {
          min = distance;
          best = f;
        }
      }
      code[bh * shape.rows + row] = static_cast<int32_t>(first + best);
    }
  });
}

template <typename T>
void one_hot_logs(Context& ctx, const int32_t* code, T* y, int64_t R, int64_t F) {
  parallel_ranges(ctx, R, F, [&](int64_t first, int64_t last) {
    std::fill(y + first * F, y + last * F, kNothing<T>);
    for (int64_t r = first; r < last; ++r) y[r * F + code[r] % F] = T(0);
  });
}

// dk_j = sum_{i >= j} w_ij dw_ij q_i, the gradient of k^_j = c_{z_j} in exp(q_i . k^_j). The
// running state holds W = sum_i exp(a_if) q_i [n_i, e_i] for each code, D (M+1) numbers besides the
// sums of chunk_backward_key.cpp.
template <typename T>
void straight_through(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                      const T* queries, const int32_t* code, int64_t D, HeadRows<const T> dy,
                      const ChunkRows<T>& saved, Strided<const T> ddenominator,
                      const ChunkState<T>& grads, T* dk) {
  const int64_t F = shape.features, M = shape.values, C = shape.chunk, wide = D * (M + 1);
  const int64_t each = C * (2 * F + wide + M + C + 5) + (F + C) * wide + C * (F + 2) + 4 * F;
  each_chunk(ctx, shape, grads, wide, each, true,
             [&](ChunkWork<T> chunk, StateAccumulator<T>& running) {
               Arena<T>& arena = chunk.arena;
               const int64_t bh = chunk.bh, row = bh * shape.length + chunk.first;
               const T* e = ddenominator.at(bh, chunk.first);
               QueryRows<T> q{};
               if (in.q.data != nullptr) q = queries_of(chunk, in, dy, saved);
               if (dk != nullptr) {
                 T* out = dk + row * D;
                 std::fill_n(out, chunk.rows * D, T(0));
                 const T* v = in.v.at(bh, chunk.first);
                 for (int64_t j = 0; j < chunk.keys; ++j) {
                   const int64_t f = code[row + j] % F;
                   const T scale = grads.scale[bh * F + f];
                   if (scale == kNothing<T>) continue;
                   const T* running_row = grads.state + (bh * F + f) * wide;
                   for (int64_t d = 0; d < D; ++d)
                     out[j * D + d] =
                         exp_of(scale) * (dot(running_row + d * (M + 1), v + j * in.v.row, M) +
                                          running_row[d * (M + 1) + M]);
                 }
                 if (in.q.data != nullptr && chunk.keys > 0) {
                   T* grad = arena.take(chunk.rows * chunk.keys);  // w_ij dw_ij
                   blas_gemm(false, true, chunk.rows, chunk.keys, M, T(1), q.numerator, M, v,
                             in.v.row, T(0), grad, chunk.keys);
                   for (int64_t i = 0; i < chunk.rows; ++i)
                     for (int64_t j = 0; j < chunk.keys; ++j) {
                       T& s = grad[i * chunk.keys + j];
                       s = j > i ? T(0)
                                 : (s + e[i]) * exp_of(q.rows.logs[i * F + code[row + j] % F] -
                                                       q.rows.top[i] + q.rows.offset[i]);
                     }
                   blas_gemm(true, false, chunk.keys, D, chunk.rows, T(1), grad, chunk.keys,
                             queries + row * D, D, T(1), out, D);
                 }
               }
               if (in.q.data == nullptr || chunk.last) return;
               T* products = arena.take(chunk.rows * wide);
               for (int64_t i = 0; i < chunk.rows; ++i)
                 for (int64_t d = 0; d < D; ++d) {
                   T* to = products + i * wide + d * (M + 1);
                   const T by = queries[(row + i) * D + d];
                   for (int64_t m = 0; m < M; ++m) to[m] = by * q.numerator[i * M + m];
                   to[M] = by * e[i];
                 }
               running.accumulate(q.rows, {products, wide}, nullptr, arena);
             });
}

LINEA_KERNEL_TABLE(CodebookKernels, .mixture_logs = mixture_logs<T>,
                   .mixture_logs_backward = mixture_logs_backward<T>,
                   .add_to_heads = add_to_heads<T>, .nearest_code = nearest_code<T>,
                   .one_hot_logs = one_hot_logs<T>)

LINEA_KERNEL_TABLE(StraightThroughKernels, .straight_through = straight_through<T>)

}  // namespace linea::cpu
