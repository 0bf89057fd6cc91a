// Rotary positions (Su 2021, "RoFormer"): y_d = x_d cos - x_{d+h} sin, y_{d+h} = x_{d+h} cos + x_d sin,
// h half of the width; the last number of an odd width stays.
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

template <typename T>
void rotate(Context& ctx, const T* table, HeadRows<const T> x, HeadRows<T> y, int64_t BH, int64_t S,
            int64_t width, bool back) {
  const int64_t half = width / 2;
  const T sign = back ? T(-1) : T(1);
  parallel_rows(ctx, BH * S, 4 * width, [&](int64_t row) {
    const T *from = x.at(row / S, row % S), *cosine = table + row % S * width;
    T* to = y.at(row / S, row % S);
#pragma omp simd
    for (int64_t d = 0; d < half; ++d) {
      const T one = from[d], two = from[d + half], c = cosine[d], s = sign * cosine[d + half];
      to[d] = one * c - two * s;
      to[d + half] = two * c + one * s;
    }
    if (width % 2 != 0) to[width - 1] = from[width - 1];
  });
}

LINEA_KERNEL_TABLE(RotaryKernels, .rotate = rotate<T>)

}  // namespace linea::cpu
