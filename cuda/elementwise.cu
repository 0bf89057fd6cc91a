// Elementwise kernels.
#include "cuda/elements.h"
#include "cuda/kernel_tables.h"
#include "cuda/several.h"

namespace linea::cuda {
namespace {

// y = formula(x), or dx = formula'(x) dy; structs, because the formula is a type.
template <typename A, typename Formula>
struct ValueOf {
  __device__ void operator()(A x, A& y) const { y = Formula::value(x); }
};
template <typename A, typename Formula>
struct DerivativeOf {
  __device__ void operator()(A x, A dy, A& dx) const { dx = Formula::grad(x) * dy; }
};

// Calls body(formula) with the formula of `f`, which for bf16 takes a GPU's approximations.
template <typename T, typename Body>
void with_formula_for(Pointwise f, const Body& body) {
  using A = Accumulator<T>;
  using S = SigmoidFor<T>;
  if constexpr (MathFor<T>::kCoarse) {
    if (f == Pointwise::gelu) return body(GeluBy<A, S>{});
    if (f == Pointwise::silu) return body(SiluBy<A, S>{});
    if (f == Pointwise::sigmoid) return body(S{});
  }
  with_pointwise<A>(f, body);
}

template <typename From, typename To>
void cast_all(Context& ctx, const CastSpan<From, To>* pieces, size_t count) {
  using Piece = CastSpan<From, To>;
  const auto cast = [=] __device__(Accumulator<From> x, Accumulator<To> & y) {
    y = static_cast<Accumulator<To>>(x);
  };
  each_piece(ctx, pieces, count,
             [=] __device__(const Piece& of, int64_t first, int64_t last, int64_t) {
               each_of_array(threadIdx.x, kBlockThreads, last - first, cast, of.from + first,
                             of.to + first);
             });
}

}  // namespace

template <typename T>
void fill(Context& ctx, T* y, double value, int64_t n) {
  const auto everywhere = static_cast<Accumulator<T>>(value);
  for_each_element(
      ctx, n, [=] __device__(Accumulator<T> & to) { to = everywhere; }, y);
}

template <typename T>
void add(Context& ctx, const T* a, const T* b, T* y, int64_t n) {
  using A = Accumulator<T>;
  for_each_element(
      ctx, n, [=] __device__(A p, A q, A & sum) { sum = p + q; }, a, b, y);
}

template <typename T>
void multiply(Context& ctx, const T* a, const T* b, T* y, int64_t n) {
  using A = Accumulator<T>;
  for_each_element(
      ctx, n, [=] __device__(A p, A q, A & product) { product = p * q; }, a, b, y);
}

template <typename T>
void scale(Context& ctx, const T* x, double factor, T* y, int64_t n) {
  using A = Accumulator<T>;
  const A by = static_cast<A>(factor);
  for_each_element(
      ctx, n, [=] __device__(A from, A & to) { to = by * from; }, x, y);
}

template <typename T>
void pointwise(Context& ctx, Pointwise f, const T* x, T* y, int64_t n) {
  using A = Accumulator<T>;
  with_formula_for<T>(
      f, [&](auto formula) { for_each_element(ctx, n, ValueOf<A, decltype(formula)>{}, x, y); });
}

template <typename T>
void pointwise_backward(Context& ctx, Pointwise f, const T* x, const T* dy, T* dx, int64_t n) {
  using A = Accumulator<T>;
  with_formula_for<T>(f, [&](auto formula) {
    for_each_element(ctx, n, DerivativeOf<A, decltype(formula)>{}, x, dy, dx);
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
  using F = GeluBy<A, SigmoidFor<T>>;
  const auto change = [=] __device__(A x, A grad, A & value, A & changed) {
    const A s = F::gate(x);
    value = x * s;
    changed = grad * F::derivative_at(x, s);
  };
  for_each_element(ctx, n, change, u, static_cast<const T*>(dh), h, dh);
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
