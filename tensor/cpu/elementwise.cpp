// Elementwise kernels.
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

template <typename T>
void fill(Context& ctx, T* y, double value, int64_t n) {
  parallel_map(ctx, y, n, 1, [=](int64_t) { return static_cast<T>(value); });
}

template <typename T>
void add(Context& ctx, const T* a, const T* b, T* y, int64_t n) {
  parallel_map(ctx, y, n, 1, [=](int64_t i) { return a[i] + b[i]; });
}

template <typename T>
void multiply(Context& ctx, const T* a, const T* b, T* y, int64_t n) {
  parallel_map(ctx, y, n, 1, [=](int64_t i) { return a[i] * b[i]; });
}

template <typename T>
void scale(Context& ctx, const T* x, double factor, T* y, int64_t n) {
  parallel_map(ctx, y, n, 1, [=](int64_t i) { return static_cast<T>(factor) * x[i]; });
}

template <typename T>
void pointwise(Context& ctx, Pointwise f, const T* x, T* y, int64_t n) {
  with_pointwise<T>(f, [&](auto formula) {
    parallel_map(ctx, y, n, 8, [=](int64_t i) { return formula.value(x[i]); });
  });
}

template <typename T>
void pointwise_backward(Context& ctx, Pointwise f, const T* x, const T* dy, T* dx, int64_t n) {
  with_pointwise<T>(f, [&](auto formula) {
    parallel_map(ctx, dx, n, 8, [=](int64_t i) { return formula.grad(x[i]) * dy[i]; });
  });
}

template <typename From, typename To>
void convert(Context& ctx, const CastSpan<From, To>* spans, size_t count) {
  for (const CastSpan<From, To>* span = spans; span != spans + count; ++span)
    parallel_map(ctx, span->to, span->n, 1,
                 [x = span->from](int64_t i) { return static_cast<To>(x[i]); });
}

template <typename T>
void gelu_recompute(Context& ctx, const T* u, T* h, T* dh, int64_t n) {
  parallel_ranges(ctx, n, 12, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const T x = u[i], s = Gelu<T>::gate(x);
      h[i] = x * s;
      dh[i] *= Gelu<T>::derivative_at(x, s);
    }
  });
}

// Element e uses word e % 4 of the random block e / 4.
template <typename T>
void dropout(Context& ctx, const T* x, T* y, int64_t n, float rate, uint32_t stream_id,
             int64_t first) {
  const RandomStream stream{ctx.step->seed, Purpose::dropout, stream_id, ctx.step->step};
  const T factor = T(1) / (T(1) - static_cast<T>(rate));
  const int64_t end = first + n, first_block = first / 4;
  parallel_ranges(ctx, (end + 3) / 4 - first_block, 40, [&](int64_t begin, int64_t stop) {
    for (int64_t block = first_block + begin; block < first_block + stop; ++block) {
      const RandomWords words = random_words(stream, static_cast<uint64_t>(block));
      for (int64_t e = std::max(4 * block, first); e < std::min(4 * block + 4, end); ++e)
        y[e - first] = keeps(words.word[e % 4], rate) ? x[e - first] * factor : T(0);
    }
  });
}

LINEA_KERNEL_TABLE(ElementwiseKernels, .fill = fill<T>, .add = add<T>, .multiply = multiply<T>,
                   .scale = scale<T>, .pointwise = pointwise<T>,
                   .pointwise_backward = pointwise_backward<T>, .widen = convert<BFloat16, T>,
                   .narrow = convert<T, BFloat16>, .gelu_recompute = gelu_recompute<T>,
                   .dropout = dropout<T>)

}  // namespace linea::cpu
