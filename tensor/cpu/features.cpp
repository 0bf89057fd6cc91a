// Feature maps with more features than inputs, each followed by its backward.
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"

namespace linea::cpu {

// phi_{a D + b} = x_a x_b, so that phi(q).phi(k) = (q.k)^2.   (Tsai 2019; Katharopoulos 2020, 3.2)
template <typename T>
void quadratic_features(Context& ctx, const T* x, T* y, int64_t R, int64_t D) {
  parallel_rows(ctx, R, D * D, [&](int64_t r) {
    for (int64_t a = 0; a < D; ++a)
      for (int64_t b = 0; b < D; ++b) y[(r * D + a) * D + b] = x[r * D + a] * x[r * D + b];
  });
}

// dx_a = sum_b (dphi_{ab} + dphi_{ba}) x_b
template <typename T>
void quadratic_features_backward(Context& ctx, const T* x, const T* dy, T* dx, int64_t R,
                                 int64_t D) {
  parallel_rows(ctx, R, 2 * D * D, [&](int64_t r) {
    const T *from = x + r * D, *dphi = dy + r * D * D;
    T* to = dx + r * D;
    std::fill_n(to, D, T(0));
    for (int64_t a = 0; a < D; ++a) {
      T along = 0;
      for (int64_t b = 0; b < D; ++b) {
        along += dphi[a * D + b] * from[b];
        to[b] += dphi[a * D + b] * from[a];
      }
      to[a] += along;
    }
  });
}

// r = relu([x, -x]), phi_{(b-1) 2D + a} = r_a r_{(a+b) mod 2D}, a < 2D, b = 1..nu.
// (Schlag 2021, eq. 37)
template <typename T>
T relu_of_halves(const T* x, int64_t a, int64_t D) {
  return a < D ? Relu<T>::value(x[a]) : Relu<T>::value(-x[a - D]);
}

template <typename T>
void dpfp_features(Context& ctx, const T* x, T* y, int64_t R, int64_t D, int64_t nu) {
  parallel_rows(ctx, R, 2 * D * nu, [&](int64_t r) {
    const T* row = x + r * D;
    for (int64_t b = 1; b <= nu; ++b)
      for (int64_t a = 0; a < 2 * D; ++a)
        y[(r * nu + b - 1) * 2 * D + a] =
            relu_of_halves(row, a, D) * relu_of_halves(row, (a + b) % (2 * D), D);
  });
}

// dr_a = sum_b dphi_{b,a} r_{a+b} + dphi_{b,a-b} r_{a-b};
// dx_a = dr_a [x_a > 0] - dr_{a+D} [x_a < 0]
template <typename T>
void dpfp_features_backward(Context& ctx, const T* x, const T* dy, T* dx, int64_t R, int64_t D,
                            int64_t nu) {
  parallel_rows(ctx, R, 4 * D * nu, [&](int64_t r) {
    const int64_t W = 2 * D;
    const T *row = x + r * D, *dphi = dy + r * nu * W;
    const auto grad = [&](int64_t a) {
      T total = 0;
      for (int64_t b = 1; b <= nu; ++b) {
        const int64_t before = ((a - b) % W + W) % W;
        total += dphi[(b - 1) * W + a] * relu_of_halves(row, (a + b) % W, D) +
                 dphi[(b - 1) * W + before] * relu_of_halves(row, before, D);
      }
      return total;
    };
    for (int64_t a = 0; a < D; ++a)
      dx[r * D + a] = Relu<T>::grad(row[a]) * grad(a) - Relu<T>::grad(-row[a]) * grad(a + D);
  });
}

LINEA_KERNEL_TABLE(FeatureKernels, .quadratic_features = quadratic_features<T>,
                   .quadratic_features_backward = quadratic_features_backward<T>,
                   .dpfp_features = dpfp_features<T>,
                   .dpfp_features_backward = dpfp_features_backward<T>)

}  // namespace linea::cpu
