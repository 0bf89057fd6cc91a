// Elementwise kernels.
#include "cuda/block.h"
#include "cuda/kernel_tables.h"
#include "cuda/several.h"

namespace linea::cuda {
namespace {

// y = formula(x), or dx = formula'(x) dy; structs, because the formula is a type.
template <typename T, typename Formula>
struct ValueOf {
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const { y[i] = T(Formula::value(Accumulator<T>(x[i]))); }
};
template <typename T, typename Formula>
struct DerivativeOf {
  const T *x, *dy;
  T* dx;
  __device__ void operator()(int64_t i) const {
    using A = Accumulator<T>;
    dx[i] = T(Formula::grad(A(x[i])) * A(dy[i]));
  }
};

template <typename From, typename To>
void cast_all(Context& ctx, const CastSpan<From, To>* pieces, size_t count) {
  each_piece(ctx, pieces, count,
             [=] __device__(const CastSpan<From, To>& of, int64_t first, int64_t last, int64_t) {
               for (int64_t i = first + threadIdx.x; i < last; i += kBlockThreads)
                 of.to[i] = To(of.from[i]);
             });
}

}  // namespace

template <typename T>
void fill(Context& ctx, T* y, double value, int64_t n) {
  const T everywhere = T(value);
  for_each(ctx, n, [=] __device__(int64_t i) { y[i] = everywhere; });
}

template <typename T>
void add(Context& ctx, const T* a, const T* b, T* y, int64_t n) {
  using A = Accumulator<T>;
  for_each(ctx, n, [=] __device__(int64_t i) { y[i] = T(A(a[i]) + A(b[i])); });
}

template <typename T>
void multiply(Context& ctx, const T* a, const T* b, T* y, int64_t n) {
  using A = Accumulator<T>;
  for_each(ctx, n, [=] __device__(int64_t i) { y[i] = T(A(a[i]) * A(b[i])); });
}

template <typename T>
void scale(Context& ctx, const T* x, double factor, T* y, int64_t n) {
  using A = Accumulator<T>;
  const A by = static_cast<A>(factor);
  for_each(ctx, n, [=] __device__(int64_t i) { y[i] = T(by * A(x[i])); });
}

template <typename T>
void pointwise(Context& ctx, Pointwise f, const T* x, T* y, int64_t n) {
  with_pointwise<Accumulator<T>>(f, [&](auto formula) {
    for_each(ctx, n, ValueOf<T, decltype(formula)>{x, y});
  });
}

template <typename T>
void pointwise_backward(Context& ctx, Pointwise f, const T* x, const T* dy, T* dx, int64_t n) {
  with_pointwise<Accumulator<T>>(f, [&](auto formula) {
    for_each(ctx, n, DerivativeOf<T, decltype(formula)>{x, dy, dx});
  });
}

template <typename T>
void widen(Context& ctx, const CastSpan<BFloat16, Accumulator<T>>* pieces, size_t count) {
  cast_all(ctx, pieces, count);
}

template <typename T>
void narrow(Context& ctx, const CastSpan<Accumulator<T>, BFloat16>* pieces, size_t count) {
  cast_all(ctx, pieces, count);
}

template <typename T>
void gelu_recompute(Context& ctx, const T* u, T* h, T* dh, int64_t n) {
  using A = Accumulator<T>;
  for_each(ctx, n, [=] __device__(int64_t i) {
    const A x = A(u[i]), s = Gelu<A>::gate(x);
    h[i] = T(x * s);
    dh[i] = T(A(dh[i]) * Gelu<A>::derivative_at(x, s));
  });
}

// Element e uses word e % 4 of the random block e / 4; one thread generates all four.
template <typename T>
void dropout(Context& ctx, const T* x, T* y, int64_t n, float rate, uint32_t lane, int64_t first) {
  using A = Accumulator<T>;
  const StepParams* const step = ctx.step_on_device;
  const A factor = A(1) / (A(1) - static_cast<A>(rate));
  const int64_t end = first + n, first_block = first / 4;
  for_each(ctx, (end + 3) / 4 - first_block, [=] __device__(int64_t i) {
    const int64_t block = first_block + i;
    const RandomStream numbers{step->seed, Purpose::dropout, lane, step->step};
    const RandomWords words = random_words(numbers, static_cast<uint64_t>(block));
    for (int64_t e = 4 * block < first ? first : 4 * block; e < 4 * block + 4 && e < end; ++e)
      y[e - first] = keeps(words.word[e % 4], rate) ? T(A(x[e - first]) * factor) : T(A(0));
  });
}

LINEA_KERNEL_TABLE(ElementwiseKernels, .fill = fill<T>, .add = add<T>, .multiply = multiply<T>,
                   .scale = scale<T>, .pointwise = pointwise<T>,
                   .pointwise_backward = pointwise_backward<T>, .widen = widen<T>,
                   .narrow = narrow<T>, .gelu_recompute = gelu_recompute<T>, .dropout = dropout<T>)

}  // namespace linea::cuda
