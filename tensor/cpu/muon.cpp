// Muon (Jordan 2024): updates of matrices along their momentum, with all singular values near 1.
#include <cmath>

#include "tensor/cpu/blas.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"

namespace linea::cpu {
namespace {

// G' = clip_scale G;  M = M + (1 - mu) (G' - M);  U = G' + mu (M - G');  X = U / (|U| + 1e-7),
// |U| in double
template <typename T>
void take_direction(const MuonConstants& constants, T clip, const MuonMatrix<T>& of, T* x) {
  const T momentum = static_cast<T>(constants.momentum);
  const int64_t n = of.rows * of.cols;
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T g = clip * of.gradient[i];
    of.momentum[i] += (T(1) - momentum) * (g - of.momentum[i]);
    x[i] = g + momentum * (of.momentum[i] - g);
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  const T scale = static_cast<T>(1 / (std::sqrt(squares) + 1e-7));
  scale_row(x, n, scale);
}

// Five times X = (a I + b A + c A A) X with A = X X^T, or X (a I + b A + c A A) with A = X^T X where
// that is smaller. Both factors of the result are in float, also where layers round to bf16.
template <typename T>
void orthogonalize(int64_t rows, int64_t cols, T* x, T* workspace) {
  const bool wide = rows <= cols;
  const int64_t m = std::min(rows, cols), inner = std::max(rows, cols), n = rows * cols;
  T *const gram = workspace, *const factor = gram + m * m, *const next = factor + m * m;
  for (int iteration = 0; iteration < kMuonIterations; ++iteration) {
    blas_gemm<T>(!wide, wide, m, m, inner, 1, x, cols, x, cols, 0, gram, m);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < m; ++j)
        factor[i * m + j] =
            static_cast<T>(kMuonB) * gram[i * m + j] + (i == j ? static_cast<T>(kMuonA) : T(0));
    blas_gemm<T>(false, false, m, m, m, static_cast<T>(kMuonC), gram, m, gram, m, 1, factor, m);
    blas_gemm<T>(false, false, rows, cols, m, 1, wide ? factor : x, m, wide ? x : factor, cols, 0,
                 next, cols);
    std::copy_n(next, n, x);
  }
}

}  // namespace

// No update where clip_scale is NaN; else W = (1 - lr decay) W - lr sqrt(max(1, rows / cols)) X.
// One thread computes a matrix: the same bits at any number of threads.
template <typename T>
void muon(Context& ctx, const MuonConstants& constants, const MuonMatrix<T>* matrices,
          size_t count) {
  if (std::isnan(ctx.step->clip_scale)) return;
  int64_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t n = matrices[i].rows * matrices[i].cols,
                  m = std::min(matrices[i].rows, matrices[i].cols);
    largest = std::max(largest, 2 * n + 2 * m * m);
  }
  const double rate = constants.rate * ctx.step->learning_rate;
  const T clip = static_cast<T>(ctx.step->clip_scale);
  const auto update = [&](int64_t index, Arena<T> arena) {
    const MuonMatrix<T>& of = matrices[index];
    const int64_t n = of.rows * of.cols;
    T* const x = arena.take(largest);
    take_direction(constants, clip, of, x);
    orthogonalize(of.rows, of.cols, x, x + n);
    const double stretch =
        std::sqrt(std::max(1.0, static_cast<double>(of.rows) / static_cast<double>(of.cols)));
    const T keep = static_cast<T>(1 - rate * constants.weight_decay),
            step = static_cast<T>(rate * stretch);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) of.parameter[i] = keep * of.parameter[i] - step * x[i];
  };
  parallel_arenas<T>(ctx, static_cast<int64_t>(count), kGrain, largest, update);
}

LINEA_KERNEL_TABLE(MuonKernels, .muon = muon<T>)

}  // namespace linea::cpu
