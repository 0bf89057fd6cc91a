// Muon (Jordan 2024), one matrix after another; formulas in tensor/cpu/muon.cpp.
#include <algorithm>
#include <cmath>

#include "cuda/block.h"
#include "cuda/kernel_tables.h"
#include "tensor/workspace.h"

namespace linea::cuda {
namespace {

// M and X = U / (|U| + 1e-7) of G' = clip_scale G; M stays where there is no update.
template <typename T>
void take_direction(const Context& ctx, const MuonConstants& constants, const MuonMatrix<T>& of,
                    Accumulator<T>* x) {
  using A = Accumulator<T>;
  const StepParams* const step = ctx.step_on_device;
  const A momentum = static_cast<A>(constants.momentum);
  const int64_t n = of.rows * of.cols;
  for_each(ctx, n, [=] __device__(int64_t i) {
    const A g = static_cast<A>(step->clip_scale) * A(of.gradient[i]);
    const A m = of.momentum[i] + (A(1) - momentum) * (g - of.momentum[i]);
    if (step->clip_scale == step->clip_scale) of.momentum[i] = m;
    x[i] = g + momentum * (m - g);
  });
  for_each_row(ctx, 1, [=] __device__(int64_t) {
    double squares = 0;
    for (int64_t i = threadIdx.x; i < n; i += kBlockThreads)
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const A scale = static_cast<A>(1 / (std::sqrt(block_sum(squares)) + 1e-7));
    for (int64_t i = threadIdx.x; i < n; i += kBlockThreads) x[i] *= scale;
  });
}

// Returns where the result is: x or next.
template <typename A>
A* orthogonalize(Context& ctx, int64_t rows, int64_t cols, A* x, A* next, A* gram, A* factor) {
  const bool wide = rows <= cols;
  const int64_t m = std::min(rows, cols), inner = std::max(rows, cols);
  const auto gemm = kernels_of<MatrixKernels<A>>().gemm;
  const auto shape = [](int64_t of_rows, int64_t of_cols, int64_t of_inner) {
    GemmShape result{.rows = of_rows, .cols = of_cols, .inner = of_inner};
    result.set_strides();
    return result;
  };
  for (int iteration = 0; iteration < kMuonIterations; ++iteration) {
    GemmShape of_gram = shape(m, m, inner), square = shape(m, m, m);
    of_gram.transpose_a = !wide;
    of_gram.transpose_b = wide;
    gemm(ctx, of_gram, x, x, gram);
    for_each(ctx, m * m, [=] __device__(int64_t i) {
      factor[i] =
          static_cast<A>(kMuonB) * gram[i] + (i / m == i % m ? static_cast<A>(kMuonA) : A(0));
    });
    square.alpha = kMuonC;
    square.beta = 1;
    gemm(ctx, square, gram, gram, factor);
    gemm(ctx, shape(rows, cols, m), wide ? factor : x, wide ? x : factor, next);
    std::swap(x, next);
  }
  return x;
}

}  // namespace

template <typename T>
void muon(Context& ctx, const MuonConstants& constants, const MuonMatrix<T>* matrices,
          size_t count) {
  using A = Accumulator<T>;
  Context exact = ctx;
  exact.products = FloatProducts::exact;
  const StepParams* const step = ctx.step_on_device;
  for (size_t index = 0; index < count; ++index) {
    const MuonMatrix<T> of = matrices[index];
    const int64_t n = of.rows * of.cols, m = std::min(of.rows, of.cols);
    const Workspace<A> x(ctx, n), next(ctx, n), gram(ctx, m * m), factor(ctx, m * m);
    take_direction(ctx, constants, of, x.data());
    const A* const direction =
        orthogonalize(exact, of.rows, of.cols, x.data(), next.data(), gram.data(), factor.data());
    const double stretch =
        std::sqrt(std::max(1.0, static_cast<double>(of.rows) / static_cast<double>(of.cols)));
    const double rate = constants.rate, decay = constants.weight_decay;
    for_each(ctx, n, [=] __device__(int64_t i) {
      if (step->clip_scale != step->clip_scale) return;
      const double lr = rate * step->learning_rate;
      of.parameter[i] = T(static_cast<A>(1 - lr * decay) * A(of.parameter[i]) -
                          static_cast<A>(lr * stretch) * direction[i]);
    });
  }
}

LINEA_KERNEL_TABLE(MuonKernels, .muon = muon<T>)

}  // namespace linea::cuda
