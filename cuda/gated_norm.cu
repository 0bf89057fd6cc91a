// The norm and the gate of attention outputs; formulas in tensor/cpu/gated_norm.cpp. One team per
// head of a row.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"
#include "cuda/row_norm.h"

namespace linea::cuda {
namespace {

// r = 1 / sqrt(mean(y^2) + 1e-6)
template <typename A>
LINEA_HOST_DEVICE A inverse_rms(A sum_of_squares, int64_t D) {
  return A(1) / std::sqrt(sum_of_squares / static_cast<A>(D) + static_cast<A>(kGatedNormEpsilon));
}

}  // namespace

template <typename T>
void gated_norm(Context& ctx, const T* y, const T* weight, const T* g, T* z, int64_t R, int64_t H,
                int64_t C) {
  using A = Accumulator<T>;
  const int64_t D = C / H;
  for_each_team(ctx, R * H, D, [=] __device__(auto team, int64_t i) {
    const T *from = y + i * D, *gate = g + i * D;
    const A r =
        weight == nullptr
            ? A(1)
            : inverse_rms(row_sum<A>(team, D, [&](int64_t c) { return A(from[c]) * A(from[c]); }),
                          D);
    for (int64_t c = team.rank(); c < D; c += team.kThreads) {
      const A w = weight == nullptr ? A(1) : A(weight[i % H * D + c]), x = A(gate[c]);
      z[i * D + c] = T(A(from[c]) * r * Silu<A>::value_at(x, Sigmoid<A>::value(x)) * w);
    }
  });
}

// With u = y r and h = weight silu(g) dz:  dy = r (h - u avg(u h)), dg = weight u silu'(g) dz,
// dweight = sum over rows of u silu(g) dz.
template <typename T>
void gated_norm_backward(Context& ctx, const T* y, const T* weight, const T* g, const T* dz, T* dy,
                         T* dweight, T* dg, int64_t R, int64_t H, int64_t C) {
  using A = Accumulator<T>;
  const int64_t D = C / H;
  const Workspace<A> scales(ctx, R * H);
  A* const scale = scales.data();
  for_each_team(ctx, R * H, D, [=] __device__(auto team, int64_t i) {
    const T *from = y + i * D, *gate = g + i * D, *dto = dz + i * D;
    const auto weight_at = [&](int64_t c) {
      return weight == nullptr ? A(1) : A(weight[i % H * D + c]);
    };
    const auto passed = [&](int64_t c) {  // h
      const A x = A(gate[c]);
      return weight_at(c) * Silu<A>::value_at(x, Sigmoid<A>::value(x)) * A(dto[c]);
    };
    A r = 1, average = 0;
    if (weight != nullptr) {
      r = inverse_rms(row_sum<A>(team, D, [&](int64_t c) { return A(from[c]) * A(from[c]); }), D);
      average = row_sum<A>(team, D, [&](int64_t c) { return A(from[c]) * r * passed(c); }) /
                static_cast<A>(D);
    }
    if (team.rank() == 0) scale[i] = r;
    for (int64_t c = team.rank(); c < D; c += team.kThreads) {
      const A x = A(gate[c]), u = A(from[c]) * r;
      dg[i * D + c] =
          T(weight_at(c) * u * Silu<A>::derivative_at(x, Sigmoid<A>::value(x)) * A(dto[c]));
      dy[i * D + c] = T(r * (passed(c) - u * average));
    }
  });
  if (weight == nullptr) return;
  sum_columns<1, T>(
      ctx, {1, R, C}, rows_are_wide<T>(D, {y, g, dz}),  // of a head, which has one scale
      [=] __device__(auto width, int64_t, int64_t r, int64_t c, A* totals) {
        const int64_t i = r * C + c;
        const auto row = load_elements<T, width>(y + i), gate = load_elements<T, width>(g + i),
                   grad = load_elements<T, width>(dz + i);
        const A s = scale[r * H + c / D];
        for (int e = 0; e < width; ++e)
          totals[e] += row.at(e) * s *
                       Silu<A>::value_at(gate.at(e), Sigmoid<A>::value(gate.at(e))) * grad.at(e);
      },
      [=] __device__(int64_t, int64_t c, const A* totals) { dweight[c] = T(totals[0]); });
}

LINEA_KERNEL_TABLE(GatedNormKernels, .gated_norm = gated_norm<T>,
                   .gated_norm_backward = gated_norm_backward<T>)

}  // namespace linea::cuda
