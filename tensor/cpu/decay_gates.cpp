// Log decays from what a layer projects (autograd/rules/decay.cpp), and the sums of their gradients.
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {
namespace {

template <typename T>
T rate_of(const DecayShape& shape, const T* log_rate, int64_t bh) {
  const T rate = static_cast<T>(shape.rate);
  return log_rate == nullptr ? rate : rate * std::exp(log_rate[bh % shape.heads]);
}

constexpr int64_t kCost = 24;  // simple operations a softplus

}  // namespace

// y = -A softplus(s u)
template <typename T>
void log_decays(Context& ctx, const DecayShape& shape, const T* u, const T* log_rate, T* y) {
  const T sign = shape.negated ? T(-1) : T(1);
  parallel_rows(ctx, shape.batch_heads, kCost * shape.n, [&](int64_t bh) {
    const T A = rate_of(shape, log_rate, bh);
    const T* from = u + bh * shape.n;
    T* to = y + bh * shape.n;
#pragma omp simd
    for (int64_t i = 0; i < shape.n; ++i) to[i] = -A * softplus(sign * from[i]);
  });
}

// du = -A s sigmoid(s u) dy, dlog_rate[h] = sum of dy y over the rows of h: each row, then in order
template <typename T>
void log_decays_backward(Context& ctx, const DecayShape& shape, const T* u, const T* log_rate,
                         const T* dy, T* du, T* dlog_rate) {
  const T sign = shape.negated ? T(-1) : T(1);
  const Workspace<T> along(ctx, shape.batch_heads);
  parallel_rows(ctx, shape.batch_heads, kCost * shape.n, [&](int64_t bh) {
    const T A = rate_of(shape, log_rate, bh);
    const T *from = u + bh * shape.n, *dto = dy + bh * shape.n;
    T *dfrom = du + bh * shape.n, total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < shape.n; ++i) {
      const T x = sign * from[i];
      total += dto[i] * softplus(x);
      dfrom[i] = -A * sign * Sigmoid<T>::value(x) * dto[i];
    }
    along.data()[bh] = -A * total;
  });
  if (dlog_rate == nullptr) return;
  std::fill_n(dlog_rate, shape.heads, T(0));
  for (int64_t bh = 0; bh < shape.batch_heads; ++bh)
    dlog_rate[bh % shape.heads] += along.data()[bh];
}

// In double: a small remainder of a sum with both signs.
template <typename T>
void sum_back(Context& ctx, const ChunkShape& shape, const T* state, const T* dstate, T* end,
              Strided<T> x) {
  const int64_t W = shape.channel_decays ? shape.features : 1;
  const Workspace<double> totals(ctx, shape.batch_heads * W);
  parallel_rows(ctx, shape.batch_heads, shape.length * W, [&](int64_t bh) {
    double* total = totals.data() + bh * W;
    std::copy_n(end + bh * W, W, total);
    for (int64_t t = shape.length - 1; t >= 0; --t)
      for (int64_t w = 0; w < W; ++w) {
        T& element = x.at(bh)[t * W + w];
        element = static_cast<T>(total[w] += static_cast<double>(element));
      }
  });
  const int64_t count = shape.features * shape.values / std::max<int64_t>(W, 1);
  parallel_rows(ctx, shape.batch_heads * W, 2 * count, [&](int64_t row) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = row * count; i < (row + 1) * count; ++i)
      sum += static_cast<double>(state[i]) * static_cast<double>(dstate[i]);
    end[row] = static_cast<T>(sum);
  });
}

LINEA_KERNEL_TABLE(DecayKernels, .log_decays = log_decays<T>,
                   .log_decays_backward = log_decays_backward<T>, .sum_back = sum_back<T>)

}  // namespace linea::cpu
