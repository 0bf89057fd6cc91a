// Muon (Jordan 2024), equal matrices in one batch; formulas in tensor/cpu/muon.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/kernel_tables.h"
#include "cuda/several.h"
#include "cuda/team.h"
#include "tensor/workspace.h"

namespace linea::cuda {
namespace {

constexpr int64_t kBatchElements = int64_t{1} << 26;  // of a workspace for several matrices

// A matrix of a batch; x: its direction.
template <typename T>
struct Matrix {
  const T* gradient;
  T* parameter;
  T *momentum, *x;
  int64_t n;
};

// M and X = U / (|U| + 1e-7) of G' = clip_scale G; M stays where there is no update. |U| is summed
// by fixed blocks, added in order in double, so that results are reproducible bit by bit.
template <typename T>
void take_directions(const Context& ctx, const MuonConstants& constants,
                     const std::vector<Matrix<T>>& batch) {
  const StepParams* const step = ctx.step_on_device;
  const T momentum = static_cast<T>(constants.momentum);
  const int64_t blocks = piece_blocks(batch[0].n);  // of a matrix
  const Workspace<double> workspace(ctx, blocks * static_cast<int64_t>(batch.size()));
  double* const sums = workspace.data();
  each_piece(ctx, batch.data(), batch.size(),
             [=] __device__(const Matrix<T>& of, int64_t first, int64_t last, int64_t block) {
               const T clip = static_cast<T>(step->clip_scale);
               double squares = 0;
               for (int64_t i = first + threadIdx.x; i < last; i += kBlockThreads) {
                 const T g = clip * of.gradient[i];
                 const T m = of.momentum[i] + (T(1) - momentum) * (g - of.momentum[i]);
                 if (clip == clip) of.momentum[i] = m;
                 const T u = g + momentum * (m - g);
                 of.x[i] = u;
                 squares += static_cast<double>(u) * static_cast<double>(u);
               }
               squares = BlockTeam{}.sum(squares);
               if (threadIdx.x == 0) sums[block] = squares;
             });
  each_piece(ctx, batch.data(), batch.size(),
             [=] __device__(const Matrix<T>& of, int64_t first, int64_t last, int64_t block) {
               const double* const of_matrix = sums + block / blocks * blocks;
               const double squares =
                   BlockTeam{}.sum_of(blocks, [&](int64_t b) { return of_matrix[b]; });
               const T scale = static_cast<T>(1 / (std::sqrt(squares) + 1e-7));
               for (int64_t i = first + threadIdx.x; i < last; i += kBlockThreads) of.x[i] *= scale;
             });
}

// Returns where the results are: x or next.
template <typename T>
T* orthogonalize(Context& ctx, int64_t rows, int64_t cols, int64_t batch, T* x, T* next, T* gram,
                 T* factor) {
  const bool wide = rows <= cols;
  const int64_t m = std::min(rows, cols), inner = std::max(rows, cols);
  const auto gemm = kernels_of<MatrixKernels<T>>().gemm;
  const auto shape = [&](int64_t of_rows, int64_t of_cols, int64_t of_inner) {
    GemmShape result{.rows = of_rows, .cols = of_cols, .inner = of_inner, .batch = batch};
    result.set_strides();
    return result;
  };
  for (int iteration = 0; iteration < kMuonIterations; ++iteration) {
    GemmShape of_gram = shape(m, m, inner), square = shape(m, m, m);
    of_gram.transpose_a = !wide;
    of_gram.transpose_b = wide;
    gemm(ctx, of_gram, x, x, gram);
    for_each(ctx, batch * m * m, [=] __device__(int64_t i) {
      const bool diagonal = i % (m * m) % (m + 1) == 0;
      factor[i] = static_cast<T>(kMuonB) * gram[i] + (diagonal ? static_cast<T>(kMuonA) : T(0));
    });
    square.alpha = kMuonC;
    square.beta = 1;
    gemm(ctx, square, gram, gram, factor);
    gemm(ctx, shape(rows, cols, m), wide ? factor : x, wide ? x : factor, next);
    std::swap(x, next);
  }
  return x;
}

// Updates `count` matrices of one shape.
template <typename T>
void update(Context& ctx, const MuonConstants& constants, const MuonMatrix<T>* matrices,
            int64_t count) {
  const int64_t rows = matrices->rows, cols = matrices->cols, n = rows * cols,
                m = std::min(rows, cols);
  const Workspace<T> workspace(ctx, count * 2 * (n + m * m));
  T *const x = workspace.data(), *const next = x + count * n, *const gram = next + count * n;
  std::vector<Matrix<T>> batch;
  for (int64_t i = 0; i < count; ++i)
    batch.push_back(
        {matrices[i].gradient, matrices[i].parameter, matrices[i].momentum, x + i * n, n});
  take_directions(ctx, constants, batch);
  Context exact = ctx;
  exact.products = FloatProducts::exact;
  const int64_t to_result =
      orthogonalize(exact, rows, cols, count, x, next, gram, gram + count * m * m) - x;
  const double stretch =
      std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(cols)));
  const double rate = constants.rate, decay = constants.weight_decay;
  const StepParams* const step = ctx.step_on_device;
  each_piece(ctx, batch.data(), batch.size(),
             [=] __device__(const Matrix<T>& of, int64_t first, int64_t last, int64_t) {
               if (step->clip_scale != step->clip_scale) return;
               const double lr = rate * step->learning_rate;
               const T keep = static_cast<T>(1 - lr * decay), by = static_cast<T>(lr * stretch);
               for (int64_t i = first + threadIdx.x; i < last; i += kBlockThreads)
                 of.parameter[i] = keep * of.parameter[i] - by * of.x[to_result + i];
             });
}

}  // namespace

template <typename T>
void muon(Context& ctx, const MuonConstants& constants, const MuonMatrix<T>* matrices,
          size_t count) {
  std::vector<MuonMatrix<T>> sorted(matrices, matrices + count);
  const auto size = [](const MuonMatrix<T>& of) { return std::pair(of.rows, of.cols); };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) { return size(a) > size(b); });
  for (size_t first = 0, end = 0; first < count; first = end) {
    const auto [rows, cols] = size(sorted[first]);
    const int64_t each = 2 * (rows * cols + std::min(rows, cols) * std::min(rows, cols));
    while (end < count && size(sorted[end]) == size(sorted[first]) &&
           (end == first || static_cast<int64_t>(end - first + 1) * each <= kBatchElements))
      ++end;
    update(ctx, constants, &sorted[first], static_cast<int64_t>(end - first));
  }
}

LINEA_REAL_KERNEL_TABLE(MuonKernels, .muon = muon<T>)

}  // namespace linea::cuda
