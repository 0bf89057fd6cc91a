// The definition of the sum rule, weight by weight in double: one block per row or key. Slow; it is
// the reference for the other forms, and computes attention matrices for display.
//
//   values   a_ij = (q_i . k_j) exp(w_j - L_j)              L_j = the sum of the log decays up to j
//   logs     a_ij = sum_f exp(q_if + k_jf + w_j - L_j)      A_ij = a_ij / sum_j a_ij
#include <limits>

#include "cuda/block.h"
#include "cuda/kernel_tables.h"
#include "tensor/workspace.h"

namespace linea::cuda {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();  // the log of 0

// In-place prefix sum of x, or suffix sum if from_end; called by all lanes of one warp.
__device__ void sum_along(double* x, int64_t count, bool from_end) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  double past = 0;
  for (int64_t first = 0; first < count; first += kWarp) {
    const int64_t t = first + lane, at = from_end ? count - 1 - t : t;
    const double sum = past + warp_running_sum(t < count ? x[at] : 0.0);
    if (t < count) x[at] = sum;
    past = __shfl_sync(kWholeWarp, sum, kWarp - 1);
  }
}

// The statistics of a row of A: its largest log, 1 / sum_j a_ij exp(-max), and sum_j A_ij dA_ij.
struct Row {
  double max, inverse, mean;
};

// The inputs of a call; log_weight [P,N] is w_j - L_j.
template <typename T>
struct Definition {
  using A = Accumulator<T>;
  ChunkShape shape;
  HeadRows<const T> q, k;
  const double* log_weight;
  bool causal;

  __device__ bool logs() const { return shape.kind == FeatureKind::logs; }
  __device__ int64_t keys(int64_t bh) const { return valid_keys(shape.valid, bh, shape.length); }
  __device__ int64_t seen(int64_t bh, int64_t i) const {
    const int64_t all = keys(bh);
    return causal && i + 1 < all ? i + 1 : all;
  }
  __device__ double weight_of(int64_t bh, int64_t j) const {
    return log_weight[bh * shape.length + j];
  }

  __device__ static double at(const T* row, int64_t f) { return static_cast<double>(A(row[f])); }

  // q_i . k_j for values, log sum_f exp(q_if + k_jf) for logs.
  __device__ double meeting(const T* qi, const T* kj) const {
    const int64_t F = shape.features;
    double max = kNothing, sum = 0;
    if (!logs()) {
      for (int64_t f = 0; f < F; ++f) sum += at(qi, f) * at(kj, f);
      return sum;
    }
    for (int64_t f = 0; f < F; ++f) max = std::fmax(max, at(qi, f) + at(kj, f));
    if (max == kNothing) return max;
    for (int64_t f = 0; f < F; ++f) sum += std::exp(at(qi, f) + at(kj, f) - max);
    return max + std::log(sum);
  }
  // The log that a row's maximum is taken of.
  __device__ double log_of(double met, double weight) const {
    return logs() ? met + weight : weight;
  }

  // exp(log - max), and the a_ij of it.
  __device__ double weigh(double met, double weight, double max) const {
    return max == kNothing ? 0.0 : std::exp(log_of(met, weight) - max);
  }
  __device__ double value(double met, double weighed) const {
    return logs() ? weighed : weighed * met;
  }
};

template <typename T>
struct WeightOf {
  ChunkShape shape;
  Strided<const T> weight, decay;
  double* out;
  __device__ void operator()(int64_t bh) const {
    using A = Accumulator<T>;
    const int64_t N = shape.length, keys = valid_keys(shape.valid, bh, N);
    double* row = out + bh * N;
    for (int64_t j = threadIdx.x; j < keys; j += kBlockThreads)
      row[j] = decay.data == nullptr ? 0.0 : static_cast<double>(A(decay.at(bh)[j]));
    __syncthreads();
    if (decay.data != nullptr && threadIdx.x < kWarp) sum_along(row, keys, false);
    __syncthreads();
    for (int64_t j = threadIdx.x; j < keys; j += kBlockThreads)
      row[j] = (weight.data == nullptr ? 0.0 : static_cast<double>(A(weight.at(bh)[j]))) - row[j];
  }
};

// One row: writes A if matrix is not null, and the statistics for its gradients if rows is not
// null.
template <typename T>
struct MakeRow {
  Definition<T> of;
  T* matrix;
  const T* dmatrix;
  Row* rows;
  __device__ void operator()(int64_t r) const {
    using A = Accumulator<T>;
    const int64_t N = of.shape.length, bh = r / N, i = r % N, seen = of.seen(bh, i);
    const T* qi = of.q.at(bh, i);
    double max = kNothing;
    for (int64_t j = threadIdx.x; j < seen; j += kBlockThreads) {
      const double met = of.logs() ? of.meeting(qi, of.k.at(bh, j)) : 0.0;
      max = std::fmax(max, of.log_of(met, of.weight_of(bh, j)));
    }
    max = block_max(max);
    double sum = 0, along = 0;
    for (int64_t j = threadIdx.x; j < seen; j += kBlockThreads) {
      const double met = of.meeting(qi, of.k.at(bh, j));
      const double a = of.value(met, of.weigh(met, of.weight_of(bh, j), max));
      sum += a;
      if (dmatrix != nullptr) along += a * static_cast<double>(A(dmatrix[r * N + j]));
    }
    const double inverse = reciprocal_or_zero(block_sum(sum));
    if (rows != nullptr) {
      along = block_sum(along);
      if (threadIdx.x == 0) rows[r] = {max, inverse, along * inverse};
      return;
    }
    for (int64_t j = threadIdx.x; j < N; j += kBlockThreads) {
      double a = 0;
      if (j < seen) {
        const double met = of.meeting(qi, of.k.at(bh, j));
        a = inverse * of.value(met, of.weigh(met, of.weight_of(bh, j), max));
      }
      matrix[r * N + j] = T(static_cast<A>(a));
    }
  }
};

// The gradient of query i over its keys, or of key j and its weight over the queries that see it.
// With s_ij = dA_ij - sum_j A_ij dA_ij, the gradient of log a_ij is A_ij s_ij, and that of a
// product q_i . k_j is exp(w_j - L_j) s_ij / sum_j a_ij.
template <typename T, bool kOfQuery>
struct RowGradient {
  Definition<T> of;
  const T* dmatrix;
  const Row* rows;
  T* out;
  double* dweight;  // of keys
  __device__ void operator()(int64_t r) const {
    using A = Accumulator<T>;
    __shared__ double grad[kBlockThreads], met[kBlockThreads];
    const int64_t N = of.shape.length, F = of.shape.features, bh = r / N, at = r % N,
                  keys = of.keys(bh);
    // the keys (queries) that interact with this one
    const int64_t begin = kOfQuery || !of.causal ? 0 : at;
    const int64_t end = kOfQuery ? of.seen(bh, at) : at < keys ? N : begin;
    const T* mine = kOfQuery ? of.q.at(bh, at) : of.k.at(bh, at);
    double whole = 0;
    for (int64_t group = 0; group < F || group == 0; group += kBlockThreads) {
      const int64_t f = group + threadIdx.x;
      double sum = 0;
      for (int64_t first = begin; first < end; first += kBlockThreads) {
        const int64_t other = first + threadIdx.x;
        double log_derivative = 0;
        if (other < end) {
          const int64_t i = kOfQuery ? at : other, j = kOfQuery ? other : at;
          const Row row = rows[bh * N + i];
          const double meeting = of.meeting(of.q.at(bh, i), of.k.at(bh, j));
          const double weighed = of.weigh(meeting, of.weight_of(bh, j), row.max) * row.inverse;
          const double s = static_cast<double>(A(dmatrix[(bh * N + i) * N + j])) - row.mean;
          log_derivative = of.value(meeting, weighed) * s;
          grad[threadIdx.x] = of.logs() ? log_derivative : weighed * s;
          met[threadIdx.x] = meeting;
        }
        if (group == 0) whole += log_derivative;
        __syncthreads();
        const int64_t count = end - first < kBlockThreads ? end - first : kBlockThreads;
        for (int64_t o = 0; f < F && o < count; ++o) {
          const T* theirs = kOfQuery ? of.k.at(bh, first + o) : of.q.at(bh, first + o);
          if (!of.logs())
            sum += grad[o] * of.at(theirs, f);
          else if (met[o] != kNothing)
            sum += grad[o] * std::exp(of.at(mine, f) + of.at(theirs, f) - met[o]);
        }
        __syncthreads();
      }
      if (out != nullptr && f < F) out[r * F + f] = T(static_cast<A>(sum));
    }
    if (dweight == nullptr) return;
    whole = block_sum(whole);
    if (threadIdx.x == 0) dweight[r] = whole;
  }
};

template <typename T>
struct WriteWeightGradients {
  int64_t N;
  double* sums;
  T *dweight, *ddecay;
  __device__ void operator()(int64_t bh) const {
    using A = Accumulator<T>;
    double* row = sums + bh * N;
    for (int64_t j = threadIdx.x; dweight != nullptr && j < N; j += kBlockThreads)
      dweight[bh * N + j] = T(static_cast<A>(row[j]));
    if (ddecay == nullptr) return;
    __syncthreads();
    if (threadIdx.x < kWarp)
      sum_along(row, N, true);  // the decay at t affects the weight of every key from t on
    __syncthreads();
    for (int64_t t = threadIdx.x; t < N; t += kBlockThreads)
      ddecay[bh * N + t] = T(static_cast<A>(-row[t]));
  }
};

}  // namespace

template <typename T>
void attention_matrix(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in, bool causal,
                      T* matrix) {
  const Workspace<double> log_weight(ctx, shape.batch_heads * shape.length);
  for_each_row(ctx, shape.batch_heads, WeightOf<T>{shape, in.weight, in.decay, log_weight.data()});
  const Definition<T> of{shape, in.q, in.k, log_weight.data(), causal};
  for_each_row(ctx, shape.batch_heads * shape.length, MakeRow<T>{of, matrix, nullptr, nullptr});
}

template <typename T>
void attention_matrix_backward(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                               bool causal, const T* dmatrix, T* dq, T* dk, T* dweight, T* ddecay) {
  const int64_t rows = shape.batch_heads * shape.length;
  const Workspace<double> log_weight(ctx, rows), weight_sums(ctx, rows);
  const Workspace<Row> kept(ctx, rows);
  for_each_row(ctx, shape.batch_heads, WeightOf<T>{shape, in.weight, in.decay, log_weight.data()});
  const Definition<T> of{shape, in.q, in.k, log_weight.data(), causal};
  for_each_row(ctx, rows, MakeRow<T>{of, nullptr, dmatrix, kept.data()});
  if (dq != nullptr)
    for_each_row(ctx, rows, RowGradient<T, true>{of, dmatrix, kept.data(), dq, nullptr});
  if (dk == nullptr && dweight == nullptr && ddecay == nullptr) return;
  for_each_row(ctx, rows, RowGradient<T, false>{of, dmatrix, kept.data(), dk, weight_sums.data()});
  for_each_row(ctx, shape.batch_heads,
               WriteWeightGradients<T>{shape.length, weight_sums.data(), dweight, ddecay});
}

template <typename T>
AttentionMatrixKernels<T> attention_matrix_kernels() {
  return {.attention_matrix = attention_matrix<T>,
          .attention_matrix_backward = attention_matrix_backward<T>};
}
LINEA_INSTANTIATE(AttentionMatrixKernels, attention_matrix_kernels)

}  // namespace linea::cuda
