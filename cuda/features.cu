// Feature maps that expand their input, each with its backward below. Indices within a row are
// 32-bit integers, which divide faster.
#include "cuda/kernel_tables.h"
#include "cuda/team.h"

namespace linea::cuda {
namespace {

// r = relu([x, -x]) at index a < 2D
template <typename T>
__device__ T half(const T* x, uint32_t D, uint32_t a) {
  return Relu<T>::value(a < D ? x[a] : -x[a - D]);
}

}  // namespace

// phi_{a D + b} = x_a x_b, so that phi(q).phi(k) = (q.k)^2.   (Tsai 2019; Katharopoulos 2020, 3.2)
template <typename T>
void quadratic_features(Context& ctx, const T* x, T* y, int64_t R, int64_t D) {
  const uint32_t width = static_cast<uint32_t>(D);
  for_each_column(ctx, R, D * D, [=] __device__(int64_t r, int64_t c) {
    const uint32_t a = static_cast<uint32_t>(c) / width, b = static_cast<uint32_t>(c) % width;
    y[r * D * D + c] = x[r * D + a] * x[r * D + b];
  });
}

// dx_a = sum_b (dphi_{ab} + dphi_{ba}) x_b
template <typename T>
void quadratic_features_backward(Context& ctx, const T* x, const T* dy, T* dx, int64_t R,
                                 int64_t D) {
  for_each_column(ctx, R, D, [=] __device__(int64_t r, int64_t a) {
    const T *from = x + r * D, *dphi = dy + r * D * D;
    T total = 0;
    for (int64_t b = 0; b < D; ++b) total += (dphi[a * D + b] + dphi[b * D + a]) * from[b];
    dx[r * D + a] = total;
  });
}

// r = relu([x, -x]), phi_{(b-1) 2D + a} = r_a r_{(a+b) mod 2D}, a < 2D, b = 1..nu.
// (Schlag 2021, eq. 37)
template <typename T>
void dpfp_features(Context& ctx, const T* x, T* y, int64_t R, int64_t D, int64_t nu) {
  const uint32_t width = static_cast<uint32_t>(D), W = 2 * width;
  for_each_column(ctx, R, 2 * D * nu, [=] __device__(int64_t r, int64_t c) {
    const uint32_t a = static_cast<uint32_t>(c) % W, b = static_cast<uint32_t>(c) / W + 1;
    const T* from = x + r * D;
    y[r * nu * W + c] = half(from, width, a) * half(from, width, (a + b) % W);
  });
}

// dr_a = sum_b dphi_{b,a} r_{a+b} + dphi_{b,a-b} r_{a-b};
// dx_a = dr_a [x_a > 0] - dr_{a+D} [x_a < 0]
template <typename T>
void dpfp_features_backward(Context& ctx, const T* x, const T* dy, T* dx, int64_t R, int64_t D,
                            int64_t nu) {
  const uint32_t width = static_cast<uint32_t>(D), W = 2 * width, count = static_cast<uint32_t>(nu);
  for_each_column(ctx, R, D, [=] __device__(int64_t r, int64_t c) {
    const T *from = x + r * D, *dphi = dy + r * nu * W;
    T grad[2];
    for (int side = 0; side < 2; ++side) {
      const uint32_t a = static_cast<uint32_t>(c) + static_cast<uint32_t>(side) * width;
      T total = 0;
      for (uint32_t b = 1; b <= count; ++b) {
        const uint32_t before = (a + W - b % W) % W;
        const T* of_b = dphi + (b - 1) * W;
        total +=
            of_b[a] * half(from, width, (a + b) % W) + of_b[before] * half(from, width, before);
      }
      grad[side] = total;
    }
    dx[r * D + c] = Relu<T>::grad(from[c]) * grad[0] - Relu<T>::grad(-from[c]) * grad[1];
  });
}

LINEA_REAL_KERNEL_TABLE(FeatureKernels, .quadratic_features = quadratic_features<T>,
                        .quadratic_features_backward = quadratic_features_backward<T>,
                        .dpfp_features = dpfp_features<T>,
                        .dpfp_features_backward = dpfp_features_backward<T>)

}  // namespace linea::cuda
