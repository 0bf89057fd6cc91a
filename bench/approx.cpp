// The measuring of linea approx: features of keys and queries, and the errors of what they
// estimate.
#include "bench/approx.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/ops.h"
#include "train/format.h"
#include "train/timing.h"

namespace linea::approx {
namespace {

// A row whose weights cancel to less than this share of their sizes has no denominator to speak of.
constexpr double kCancelled = 1e-3;

// Rows of queries whose features meet all keys in one product, small enough for a cache; and how
// many elements of the exact attention matrix are held at a time, for all features to be compared
// with.
constexpr int64_t kBlockRows = 128, kHeldElements = int64_t{1} << 22;

Tensor to_tensor(const std::vector<double>& values, const Shape& shape) {
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

Tensor normal_rows(const Options& options, uint32_t stream_id, int64_t draw) {
  const RandomStream stream{static_cast<uint64_t>(options.seed), Purpose::task, stream_id,
                            static_cast<uint64_t>(draw)};
  std::vector<double> values(static_cast<size_t>(options.length * options.key_size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = options.stddev * random_normal(stream, i);
  return to_tensor(values, {options.length, options.key_size});
}

// u [rows, R] of x [rows, D].
Tensor project(const Tensor& x, const Tensor& omega) {
  return ops::matmul(x, omega, false, true,
                     1 / std::sqrt(std::sqrt(static_cast<double>(x.size(1)))));
}

// w of each row of x.
std::vector<float> half_squares(const Tensor& x) {
  const int64_t rows = x.size(0), D = x.size(1);
  const float* data = x.data<float>();
  std::vector<float> result(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t d = 0; d < D; ++d)
      squares += static_cast<double>(data[r * D + d]) * data[r * D + d];
    result[static_cast<size_t>(r)] =
        static_cast<float>(squares / (2 * std::sqrt(static_cast<double>(D))));
  }
  return result;
}

// Features of all keys, each divided by the largest that its column has, whose log goes to the
// queries: nothing overflows, and every row of B has a weight near 1. Of trig only the factor
// exp(w) is scaled, by its largest.
struct KeyFeatures {
  Tensor rows;                 // [N, F]
  std::vector<float> largest;  // [F], logs; not of trig
};

// The largest value of each column of u [N, R]; of -u where `negated`. Threads own columns.
void largest_logs(const Tensor& u, const std::vector<float>& half, bool negated, float* largest) {
  constexpr int64_t kStrip = 64;
  const int64_t N = u.size(0), R = u.size(1), strips = (R + kStrip - 1) / kStrip;
  const float* data = u.data<float>();
  const float sign = negated ? -1.0f : 1.0f;
#pragma omp parallel for num_threads(context().threads)
  for (int64_t strip = 0; strip < strips; ++strip) {
    const int64_t first = strip * kStrip, width = std::min(kStrip, R - first);
    float best[kStrip];
    std::fill_n(best, kStrip, -std::numeric_limits<float>::infinity());
    for (int64_t j = 0; j < N; ++j) {
      const float* row = data + j * R + first;
      const float w = half[static_cast<size_t>(j)];
      for (int64_t r = 0; r < width; ++r) {
        const float log = sign * row[r] - w;
        best[r] = log > best[r] ? log : best[r];
      }
    }
    std::copy_n(best, width, largest + first);
  }
}

KeyFeatures key_features(Kind kind, const Tensor& k, const std::vector<float>& half,
                         const Tensor& omega) {
  const Tensor u = project(k, omega);
  const int64_t N = u.size(0), R = u.size(1), F = R * features_a_row(kind);
  KeyFeatures keys{Tensor({N, F}, DType::f32), {}};
  const float largest_half = *std::max_element(half.begin(), half.end());
  if (kind != Kind::trig) {
    keys.largest.resize(static_cast<size_t>(F));
    for (int64_t side = 0; side * R < F; ++side)
      largest_logs(u, half, side == 1, keys.largest.data() + side * R);
  }
  const float *from = u.data<float>(), *largest = keys.largest.data();
  float* to = keys.rows.data<float>();
#pragma omp parallel for num_threads(context().threads)
  for (int64_t j = 0; j < N; ++j) {
    const float *row = from + j * R, w = half[static_cast<size_t>(j)];
    float* phi = to + j * F;
    if (kind == Kind::trig) {
      const float weight = exp_of(w - largest_half);
      for (int64_t r = 0; r < R; ++r)
        phi[r] = weight * std::sin(row[r]), phi[R + r] = weight * std::cos(row[r]);
      continue;
    }
    for (int64_t r = 0; r < R; ++r) phi[r] = exp_of(row[r] - w - largest[r]);
    for (int64_t r = R; r < F; ++r) phi[r] = exp_of(-row[r - R] - w - largest[r]);
  }
  return keys;
}

// The features of rows of queries that meet `keys`, with the keys' logs on them, each row divided
// by its largest: a factor of a row, like its exp(-w) or exp(+w), cancels.
Tensor query_features(Kind kind, const Tensor& q, const Tensor& omega, const KeyFeatures& keys) {
  const Tensor u = project(q, omega);
  const int64_t rows = u.size(0), R = u.size(1), F = R * features_a_row(kind);
  const Tensor result({rows, F}, DType::f32);
  const float *from = u.data<float>(), *largest = keys.largest.data();
  float* to = result.data<float>();
#pragma omp parallel for num_threads(context().threads)
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = from + i * R;
    float* phi = to + i * F;
    if (kind == Kind::trig) {
      for (int64_t r = 0; r < R; ++r) phi[r] = std::sin(row[r]), phi[R + r] = std::cos(row[r]);
      continue;
    }
    for (int64_t r = 0; r < R; ++r) phi[r] = row[r] + largest[r];
    for (int64_t r = R; r < F; ++r) phi[r] = -row[r - R] + largest[r];
    const float max = *std::max_element(phi, phi + F);
    for (int64_t f = 0; f < F; ++f) phi[f] = exp_of(phi[f] - max);
  }
  return result;
}

// The errors of one row of B = weights / sum of weights; `outputs` are weights v.
struct RowErrors {
  double matrix, output;
  bool left_out;
};

RowErrors row_errors(const float* weights, const float* outputs, const float* exact,
                     const float* exact_outputs, int64_t N, int64_t M) {
  double sum = 0, sizes = 0;
#pragma omp simd reduction(+ : sum, sizes)
  for (int64_t j = 0; j < N; ++j) sum += weights[j], sizes += std::fabs(weights[j]);
  if (!(std::fabs(sum) >= kCancelled * sizes && sizes > 0)) return {0, 0, true};
  const float factor = static_cast<float>(1 / sum);
  RowErrors errors{0, 0, false};
  double squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t j = 0; j < N; ++j) {
    const double error = static_cast<double>(weights[j] * factor - exact[j]);
    squares += error * error;
  }
  errors.matrix = squares / static_cast<double>(N);
  for (int64_t m = 0; m < M; ++m) {
    const double error = static_cast<double>(outputs[m]) / sum - exact_outputs[m];
    errors.output += error * error / static_cast<double>(M);
  }
  return errors;
}

// Adds the errors of the rows `q`, whose exact matrix and outputs are given.
void measure(Estimate& estimate, const Tensor& q, const Tensor& v, const KeyFeatures& keys,
             const Tensor& exact, const Tensor& exact_outputs) {
  const int64_t N = v.size(0), M = v.size(1);
  for (int64_t first = 0; first < q.size(0); first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, q.size(0) - first);
    const Tensor phi = query_features(estimate.kind, q.rows(first, rows), estimate.omega, keys);
    const Tensor weights = ops::matmul(phi, keys.rows, false, true),
                 outputs = ops::matmul(weights, v);
    std::vector<RowErrors> errors(static_cast<size_t>(rows));
#pragma omp parallel for num_threads(context().threads)
    for (int64_t i = 0; i < rows; ++i)
      errors[static_cast<size_t>(i)] =
          row_errors(weights.data<float>() + i * N, outputs.data<float>() + i * M,
                     exact.data<float>() + (first + i) * N,
                     exact_outputs.data<float>() + (first + i) * M, N, M);
    for (const RowErrors& row : errors) {  // in order, so that two runs give the same sum
      estimate.matrix_sum += row.matrix;
      estimate.output_sum += row.output;
      ++(row.left_out ? estimate.rows_left_out : estimate.rows);
    }
  }
}

// Progress in products of features.
class ApproxProgress {
 public:
  ApproxProgress(const Options& options, double total, ProgressReporter& reporter)
      : options_(options), total_(total), reporter_(reporter) {}
  void add(int64_t draw, double units) {
    done_ += units;
    if (!reporter_.due()) return;
    reporter_.show(fmt::format("draw {} of {}, {:.0f}% done, {} left", draw + 1, options_.draws,
                               100 * done_ / total_,
                               format_duration(watch_.seconds() * (total_ - done_) / done_)));
  }

 private:
  const Options& options_;
  double total_, done_ = 0;
  ProgressReporter& reporter_;
  Stopwatch watch_;
};

// One draw of q, k, v and of every omega: all omega of a draw start from the same numbers, so that
// features, projections and counts are compared on equal terms.
void run_draw(const Options& options, int64_t draw, std::vector<Estimate>& estimates,
              ApproxProgress& progress) {
  const int64_t N = options.length, D = options.key_size;
  const Tensor q = normal_rows(options, 0, draw), k = normal_rows(options, 1, draw),
               v = normal_rows(options, 2, draw);
  const std::vector<float> half = half_squares(k);
  const RandomStream stream{static_cast<uint64_t>(options.seed), Purpose::features, 0,
                            static_cast<uint64_t>(draw)};
  for (Estimate& estimate : estimates) {
    const int64_t R = estimate.features / features_a_row(estimate.kind);
    estimate.omega = to_tensor(draw_projection(estimate.sampled_as, R, D, stream), {R, D});
    estimate.matrix_sum = estimate.output_sum = 0;
    estimate.rows = 0;
  }
  const int64_t held = std::max(kBlockRows, kHeldElements / N / kBlockRows * kBlockRows);
  for (int64_t first = 0; first < N; first += held) {
    const Tensor rows = q.rows(first, std::min(held, N - first));
    const Tensor exact =
        ops::softmax(ops::matmul(rows, k, false, true, 1 / std::sqrt(static_cast<double>(D))));
    const Tensor exact_outputs = ops::matmul(exact, v);
    for (Estimate& estimate : estimates) {
      // Keys' features are recomputed for every part of the rows: those of all estimates together
      // would need more memory than the matrix that is never held as a whole.
      measure(estimate, rows, v, key_features(estimate.kind, k, half, estimate.omega), exact,
              exact_outputs);
      progress.add(draw,
                   static_cast<double>(rows.size(0)) * static_cast<double>(estimate.features + 64));
    }
  }
  for (Estimate& estimate : estimates) {
    if (estimate.rows == 0) continue;
    estimate.matrix_errors.push_back(estimate.matrix_sum / static_cast<double>(estimate.rows));
    estimate.output_errors.push_back(estimate.output_sum / static_cast<double>(estimate.rows));
  }
}

}  // namespace

Kind kind_of(const std::string& name) {
  if (name == "positive") return Kind::positive;
  if (name == "hyperbolic") return Kind::hyperbolic;
  if (name == "trig") return Kind::trig;
  fail(ErrorKind::usage, "`features` {}: {}; choose from positive, hyperbolic, trig", name,
       name == "relu" ? "it is not an estimator of softmax" : "there is no such feature");
}

int64_t features_a_row(Kind kind) { return kind == Kind::positive ? 1 : 2; }

void measure_errors(const Options& options, std::vector<Estimate>& estimates,
                    ProgressReporter& reporter) {
  double units = 0;
  for (const Estimate& estimate : estimates)
    units += static_cast<double>(options.draws * options.length) *
             static_cast<double>(estimate.features + 64);
  ApproxProgress progress(options, units, reporter);
  for (int64_t draw = 0; draw < options.draws; ++draw) run_draw(options, draw, estimates, progress);
}

}  // namespace linea::approx
