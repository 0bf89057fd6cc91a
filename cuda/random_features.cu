// The parts of random features (nn/attention/performer.cpp) that are not matrix products: rows of D numbers x
// beside rows of F numbers.
#include "cuda/cuda_kernels.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// |x|^2
template <typename T, typename Team>
__device__ Accumulator<T> square_norm(Team team, const T* x, int64_t D) {
  using A = Accumulator<T>;
  A total = 0;
  for (int64_t d = team.rank(); d < D; d += Team::kThreads) total += A(x[d]) * A(x[d]);
  return team.sum(total);
}

}  // namespace

template <typename T>
void subtract_norms(Context& ctx, const T* x, T* u, double factor, int64_t R, int64_t D, int64_t F) {
  using A = Accumulator<T>;
  const A by = static_cast<A>(factor);
  for_each_team(ctx, R, D > F ? D : F, [=] __device__(auto team, int64_t r) {
    const A norm = by * square_norm(team, x + r * D, D);
    for (int64_t f = team.rank(); f < F; f += team.kThreads) u[r * F + f] = T(A(u[r * F + f]) - norm);
  });
}

template <typename T>
void subtract_norms_backward(Context& ctx, const T* x, const T* du, T* dx, double factor, int64_t R, int64_t D,
                             int64_t F) {
  using A = Accumulator<T>;
  const A by = static_cast<A>(-2 * factor);
  for_each_team(ctx, R, D > F ? D : F, [=] __device__(auto team, int64_t r) {
    A total = 0;
    for (int64_t f = team.rank(); f < F; f += team.kThreads) total += A(du[r * F + f]);
    total = by * team.sum(total);
    for (int64_t d = team.rank(); d < D; d += team.kThreads)
      dx[r * D + d] = T(A(dx[r * D + d]) + total * A(x[r * D + d]));
  });
}

template <typename T>
void square_norms(Context& ctx, const T* x, T* w, double factor, int64_t R, int64_t D) {
  using A = Accumulator<T>;
  const A by = static_cast<A>(factor);
  for_each_team(ctx, R, D, [=] __device__(auto team, int64_t r) {
    const A norm = square_norm(team, x + r * D, D);
    if (team.rank() == 0) w[r] = T(by * norm);
  });
}

template <typename T>
void square_norms_backward(Context& ctx, const T* x, const T* dw, T* dx, double factor, int64_t R, int64_t D) {
  using A = Accumulator<T>;
  const A by = static_cast<A>(2 * factor);
  for_each_column(ctx, R, D, [=] __device__(int64_t r, int64_t d) {
    dx[r * D + d] = T(A(dx[r * D + d]) + by * A(dw[r]) * A(x[r * D + d]));
  });
}

template <typename T>
void sine_cosine(Context& ctx, const T* u, T* y, int64_t R, int64_t n) {
  using A = Accumulator<T>;
  for_each_column(ctx, R, n, [=] __device__(int64_t r, int64_t i) {
    const A angle = A(u[r * n + i]);
    y[2 * r * n + i] = T(std::sin(angle));
    y[2 * r * n + n + i] = T(std::cos(angle));
  });
}

// d sin = cos du, d cos = -sin du
template <typename T>
void sine_cosine_backward(Context& ctx, const T* y, const T* dy, T* du, int64_t R, int64_t n) {
  using A = Accumulator<T>;
  for_each_column(ctx, R, n, [=] __device__(int64_t r, int64_t i) {
    const int64_t sine = 2 * r * n + i, cosine = sine + n;
    du[r * n + i] = T(A(y[cosine]) * A(dy[sine]) - A(y[sine]) * A(dy[cosine]));
  });
}

#define LINEA_INSTANTIATE(T)                                                                                  \
  template void subtract_norms(Context&, const T*, T*, double, int64_t, int64_t, int64_t);                    \
  template void subtract_norms_backward(Context&, const T*, const T*, T*, double, int64_t, int64_t, int64_t); \
  template void square_norms(Context&, const T*, T*, double, int64_t, int64_t);                               \
  template void square_norms_backward(Context&, const T*, const T*, T*, double, int64_t, int64_t);            \
  template void sine_cosine(Context&, const T*, T*, int64_t, int64_t);                                        \
  template void sine_cosine_backward(Context&, const T*, const T*, T*, int64_t, int64_t);
LINEA_INSTANTIATE(float)
LINEA_INSTANTIATE(double)
LINEA_INSTANTIATE(BFloat16)

}  // namespace linea::cuda
