// The definition of the sum rule: every weight by itself, in double, one row after the other. Slow;
// what the other forms are measured against, and what shows an attention matrix.
//
//   values   a_ij = (q_i . k_j) exp(w_j - L_j)              L_j = the sum of the log decays up to j
//   logs     a_ij = sum_f exp(q_if + k_jf + w_j - L_j)      A_ij = a_ij / sum_j a_ij
#include <algorithm>
#include <cmath>

#include "tensor/cpu/chunk.h"
#include "tensor/cpu/kernel_tables.h"

namespace linea::cpu {
namespace {

// One pair: log weights of its keys, and rows of its matrix with what their gradients need.
// `memory`: size() doubles.
template <typename T>
class Definition {
 public:
  static int64_t size(const ChunkShape& shape) { return 5 * shape.length; }

  Definition(const ChunkShape& shape, const ChunkInput<T>& in, int64_t bh, bool causal,
             double* memory)
      : N_(shape.length),
        F_(shape.features),
        logs_(shape.kind == FeatureKind::logs),
        causal_(causal),
        keys_(valid_keys(shape.valid, bh, shape.length)),
        q_(in.q.at(bh, 0)),
        k_(in.k.at(bh, 0)),
        log_weight_(memory),
        weight_(memory + N_),
        score_(memory + 2 * N_),
        meeting_(memory + 3 * N_),
        matrix_(memory + 4 * N_) {
    double past = 0;
    for (int64_t j = 0; j < keys_; ++j) {
      if (in.decay.data != nullptr) past += static_cast<double>(in.decay.at(bh)[j]);
      log_weight_[j] =
          (in.weight.data == nullptr ? 0.0 : static_cast<double>(in.weight.at(bh)[j])) - past;
    }
  }

  int64_t seen(int64_t i) const { return causal_ ? std::min(i + 1, keys_) : keys_; }

  // Fills row i of A; score is log a_ij of logs, q_i . k_j of values; of logs, meeting is log a_ij
  // without the weight of the key, which may be 0.
  const double* row(int64_t i) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seen(i); ++j) {
      if (logs_) meeting_[j] = log_score(i, j);
      score_[j] = logs_ ? meeting_[j] + log_weight_[j] : product(i, j);
      max = std::max(max, logs_ ? score_[j] : log_weight_[j]);
    }
    for (int64_t j = 0; j < seen(i); ++j) {
      const double log = logs_ ? score_[j] : log_weight_[j];
      weight_[j] = max == -INFINITY ? 0.0 : std::exp(log - max);
      matrix_[j] = logs_ ? weight_[j] : weight_[j] * score_[j];
      sum += matrix_[j];
    }
    inverse_ = reciprocal_or_zero(sum);
    for (int64_t j = 0; j < seen(i); ++j) matrix_[j] *= inverse_;
    return matrix_;
  }

  // After row(i): body(j, dlog a_ij, da_ij / d(q_i . k_j)) for each key seen.
  template <typename Body>
  void gradient(int64_t i, const T* dmatrix, const Body& body) const {
    double mean = 0;
    for (int64_t j = 0; j < seen(i); ++j) mean += matrix_[j] * static_cast<double>(dmatrix[j]);
    for (int64_t j = 0; j < seen(i); ++j) {
      const double grad = static_cast<double>(dmatrix[j]) - mean;
      body(j, matrix_[j] * grad, weight_[j] * inverse_ * grad);
    }
  }

  // The share of feature f in a_ij, of logs, after row(i).
  double share(int64_t i, int64_t j, int64_t f) const {
    const double log = meeting_[j];
    return log == -INFINITY ? 0.0
                            : std::exp(static_cast<double>(q_[i * F_ + f]) + k_[j * F_ + f] - log);
  }

 private:
  double product(int64_t i, int64_t j) const {
    double total = 0;
    for (int64_t f = 0; f < F_; ++f)
      total += static_cast<double>(q_[i * F_ + f]) * static_cast<double>(k_[j * F_ + f]);
    return total;
  }

  double log_score(int64_t i, int64_t j) const {
    double max = -INFINITY, sum = 0;
    const auto log = [&](int64_t f) {
      return static_cast<double>(q_[i * F_ + f]) + static_cast<double>(k_[j * F_ + f]);
    };
    for (int64_t f = 0; f < F_; ++f) max = std::max(max, log(f));
    if (max == -INFINITY) return max;
    for (int64_t f = 0; f < F_; ++f) sum += std::exp(log(f) - max);
    return max + std::log(sum);
  }

  int64_t N_, F_;
  bool logs_, causal_;
  int64_t keys_;
  const T *q_, *k_;
  double *log_weight_, *weight_, *score_, *meeting_, *matrix_;  // [N] each
  double inverse_ = 0;
};

}  // namespace

template <typename T>
void attention_matrix(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in, bool causal,
                      T* matrix) {
  const int64_t N = shape.length;
  const int64_t each = Definition<T>::size(shape);
  const Workspace<double> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.batch_heads, [&](int64_t bh, int thread) {
    Definition<T> definition(shape, in, bh, causal, workspace.data() + thread * each);
    for (int64_t i = 0; i < N; ++i) {
      const double* row = definition.row(i);
      T* out = matrix + (bh * N + i) * N;
      for (int64_t j = 0; j < N; ++j)
        out[j] = j < definition.seen(i) ? static_cast<T>(row[j]) : T(0);
    }
  });
}

template <typename T>
void attention_matrix_backward(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                               bool causal, const T* dmatrix, T* dq, T* dk, T* dweight, T* ddecay) {
  const int64_t N = shape.length, F = shape.features;
  const bool logs = shape.kind == FeatureKind::logs;
  const int64_t sums = 2 * N * F + N, each = sums + Definition<T>::size(shape);
  const Workspace<double> workspace(ctx, ctx.threads * each);
  parallel_items(ctx, shape.batch_heads, [&](int64_t bh, int thread) {
    double *q_sums = workspace.data() + thread * each, *k_sums = q_sums + N * F,
           *weight_sums = k_sums + N * F;
    std::fill_n(q_sums, sums, 0.0);
    Definition<T> definition(shape, in, bh, causal, q_sums + sums);
    const T *q = in.q.at(bh, 0), *k = in.k.at(bh, 0);
    for (int64_t i = 0; i < N; ++i) {
      definition.row(i);
      definition.gradient(
          i, dmatrix + (bh * N + i) * N, [&](int64_t j, double dlog, double dproduct) {
            weight_sums[j] += dlog;
            for (int64_t f = 0; f < F; ++f) {
              const int64_t of_q = i * F + f, of_k = j * F + f;
              const double part = logs ? dlog * definition.share(i, j, f) : 0.0;
              q_sums[of_q] += logs ? part : dproduct * static_cast<double>(k[j * F + f]);
              k_sums[of_k] += logs ? part : dproduct * static_cast<double>(q[i * F + f]);
            }
          });
    }
    const auto write = [&](const double* from, T* to, int64_t count) {
      for (int64_t i = 0; to != nullptr && i < count; ++i)
        to[bh * count + i] = static_cast<T>(from[i]);
    };
    write(q_sums, dq, N * F);
    write(k_sums, dk, N * F);
    write(weight_sums, dweight, N);
    double after = 0;  // a decay at t divides the weight of every key from t on
    for (int64_t t = N - 1; t >= 0; --t) weight_sums[t] = after -= weight_sums[t];
    write(weight_sums, ddecay, N);
  });
}

template <typename T>
AttentionMatrixKernels<T> attention_matrix_kernels() {
  return {.attention_matrix = attention_matrix<T>,
          .attention_matrix_backward = attention_matrix_backward<T>};
}
template AttentionMatrixKernels<float> attention_matrix_kernels();
template AttentionMatrixKernels<double> attention_matrix_kernels();

}  // namespace linea::cpu
