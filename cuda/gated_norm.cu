// The norm and the gate of attention outputs; formulas in tensor/cpu/gated_norm.cpp. One team per
// head of a row: r = 1 / sqrt(mean(y^2) + 1e-6), or 1 without weights.
#include "cuda/columns.h"
#include "cuda/kernel_tables.h"
#include "cuda/wide_rows.h"

namespace linea::cuda {
namespace {

// The head of row i of [R H,D]; i < 2^32.
__device__ inline int64_t head_of(int64_t i, int64_t H) {
  return (H & (H - 1)) == 0 ? i & (H - 1) : static_cast<uint32_t>(i) % static_cast<uint32_t>(H);
}

}  // namespace

template <typename T>
void gated_norm(Context& ctx, const T* y, const T* weight, const T* g, T* z, int64_t R, int64_t H,
                int64_t C) {
  using A = Accumulator<T>;
  using F = SiluBy<A, SigmoidFor<T>>;
  const int64_t D = C / H;
  const bool normed = weight != nullptr;
  const A count = static_cast<A>(D);
  for_each_wide_row(
      ctx, R * H, D, are_aligned(y, weight, g, z), [=] __device__(auto row, int64_t i) {
        const T* const from = y + i * D;
        const auto square = [](A v) { return v * v; };
        const A r =
            normed ? inverse_root<T>(row.total(square, from), count, kGatedNormEpsilon) : A(1);
        row.each([=](A v, A w, A x, A& out) { out = v * r * F::value(x) * (normed ? w : A(1)); },
                 from, normed ? weight + head_of(i, H) * D : from, g + i * D, z + i * D);
      });
}

// With u = y r and h = weight silu(g) dz:  dy = r (h - u avg(u h)), dg = weight u silu'(g) dz,
// dweight = sum over rows of u silu(g) dz.
template <typename T>
void gated_norm_backward(Context& ctx, const T* y, const T* weight, const T* g, const T* dz, T* dy,
                         T* dweight, T* dg, int64_t R, int64_t H, int64_t C) {
  using A = Accumulator<T>;
  using S = SigmoidFor<T>;
  using F = SiluBy<A, S>;
  const int64_t D = C / H;
  const bool normed = weight != nullptr, aligned = are_aligned(y, g, dz);
  const A count = static_cast<A>(D);
  const Workspace<A> scales(ctx, R * H);
  A* const scale = scales.data();
  for_each_wide_row(ctx, R * H, D, aligned && are_aligned(weight, dy, dg),
                    [=] __device__(auto row, int64_t i) {
                      const T *from = y + i * D, *gate = g + i * D, *dto = dz + i * D;
                      const T* const w = normed ? weight + head_of(i, H) * D : from;
                      A r = 1, average = 0;
                      if (normed) {
                        A squares = 0, along = 0;
                        const auto add = [&](A v, A own, A x, A d) {
                          squares += v * v;
                          along += v * (own * F::value(x) * d);
                        };
                        row.each(add, from, w, gate, dto);
                        r = inverse_root<T>(row.sum(squares), count, kGatedNormEpsilon);
                        average = MathFor<T>::quotient(row.sum(along) * r, count);
                        if (row.leads()) scale[i] = r;
                      }
                      const auto grads = [=](A v, A own, A x, A d, A& dv, A& dx) {
                        const A u = v * r, s = S::value(x), by = normed ? own * d : d;
                        dx = u * F::derivative_at(x, s) * by;
                        dv = r * (F::value_at(x, s) * by - u * average);
                      };
                      row.each(grads, from, w, gate, dto, dy + i * D, dg + i * D);
                    });
  if (!normed) return;
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
