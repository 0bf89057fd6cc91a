// linea approx: how well random features estimate softmax attention (Choromanski et al. 2021, "Rethinking
// attention with Performers", figure 4: errors against the number of features, for features and projections).
//
// q, k, v of N rows ~ N(0, deviation^2), x^ = x / D^(1/4). For both directions, so no mask:
//
//   A_ij = exp(q^_i.k^_j) / sum_j exp(q^_i.k^_j)           y = A v
//   B_ij = phi(q^_i).phi(k^_j) / sum_j phi(q^_i).phi(k^_j)  the same of the features, with y' = B v
//   errors: the means of (B_ij - A_ij)^2 and of (y'_im - y_im)^2, over rows, keys and values
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "data/files.h"
#include "nn/random_projection.h"
#include "tensor/ops.h"
#include "train/chart.h"
#include "train/commands.h"
#include "train/progress.h"

namespace linea {
namespace {

struct ApproxOptions {
  std::vector<std::string> features = {"positive", "hyperbolic", "trig"};
  std::vector<std::string> projections = projection_names();
  std::vector<int64_t> counts = {16, 32, 64, 128, 256, 512, 1024};
  double deviation = 1;
  int64_t length = 4096, key_size = 16, draws = 15, seed = 1, threads = 0;
  std::string csv, svg;
  bool json = false;
};

// A row whose weights cancel to less than this share of their sizes has no denominator to speak of.
constexpr double kCancelled = 1e-3;

// Rows of queries whose features meet all keys in one product, small enough for a cache; and how many elements
// of the exact attention matrix are held at a time, for all features to be compared with.
constexpr int64_t kBlockRows = 128, kHeldElements = int64_t{1} << 22;

// What F counts: R rows of omega make as many positive features, and two each of the other kinds.
//
//   u = omega x^, w = |x^|^2 / 2 = |x|^2 / (2 sqrt D); of each, the factor that cancels in B is left out:
//   positive    phi = exp(u - w)
//   hyperbolic  phi = exp(-w) [exp(u), exp(-u)]
//   trig        phi = exp(+w) [sin u, cos u]
enum class Kind { positive, hyperbolic, trig };

Kind kind_of(const std::string& name) {
  if (name == "positive") return Kind::positive;
  if (name == "hyperbolic") return Kind::hyperbolic;
  if (name == "trig") return Kind::trig;
  fail(ErrorKind::usage, "--features {}: {}; choose from positive, hyperbolic, trig", name,
       name == "relu" ? "it is not an estimator of softmax" : "there is no such feature");
}

int64_t features_a_row(Kind kind) { return kind == Kind::positive ? 1 : 2; }

// One line of the results, and its errors draw by draw.
struct Estimate {
  std::string feature, projection;
  Kind kind;
  Projection drawn_as;
  int64_t features;
  std::vector<double> matrix_errors = {}, output_errors = {};  // of the draws with a row to measure
  int64_t rows_left_out = 0;
  Tensor omega = {};                      // of the draw that runs
  double matrix_sum = 0, output_sum = 0;  // of its rows so far
  int64_t rows = 0;                       // that were measured
};

Tensor to_tensor(const std::vector<double>& values, const Shape& shape) {
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

Tensor normal_rows(const ApproxOptions& options, uint32_t lane, int64_t draw) {
  const RandomStream stream{static_cast<uint64_t>(options.seed), Purpose::task, lane, static_cast<uint64_t>(draw)};
  std::vector<double> values(static_cast<size_t>(options.length * options.key_size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = options.deviation * random_normal(stream, i);
  return to_tensor(values, {options.length, options.key_size});
}

// u [rows, R] of x [rows, D].
Tensor project(const Tensor& x, const Tensor& omega) {
  return ops::matmul(x, omega, false, true, 1 / std::sqrt(std::sqrt(static_cast<double>(x.size(1)))));
}

// w of each row of x.
std::vector<float> half_squares(const Tensor& x) {
  const int64_t rows = x.size(0), D = x.size(1);
  const float* data = x.data<float>();
  std::vector<float> result(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t d = 0; d < D; ++d) squares += static_cast<double>(data[r * D + d]) * data[r * D + d];
    result[static_cast<size_t>(r)] = static_cast<float>(squares / (2 * std::sqrt(static_cast<double>(D))));
  }
  return result;
}

// Features of all keys, each divided by the largest that its column has, whose log goes to the queries: nothing
// overflows, and every row of B has a weight near 1. Of trig only the factor exp(w) is scaled, by its largest.
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

KeyFeatures key_features(Kind kind, const Tensor& k, const std::vector<float>& half, const Tensor& omega) {
  const Tensor u = project(k, omega);
  const int64_t N = u.size(0), R = u.size(1), F = R * features_a_row(kind);
  KeyFeatures keys{Tensor({N, F}, DType::f32), {}};
  const float largest_half = *std::max_element(half.begin(), half.end());
  if (kind != Kind::trig) {
    keys.largest.resize(static_cast<size_t>(F));
    for (int64_t side = 0; side * R < F; ++side) largest_logs(u, half, side == 1, keys.largest.data() + side * R);
  }
  const float *from = u.data<float>(), *largest = keys.largest.data();
  float* to = keys.rows.data<float>();
#pragma omp parallel for num_threads(context().threads)
  for (int64_t j = 0; j < N; ++j) {
    const float *row = from + j * R, w = half[static_cast<size_t>(j)];
    float* phi = to + j * F;
    if (kind == Kind::trig) {
      const float weight = exp_of(w - largest_half);
      for (int64_t r = 0; r < R; ++r) phi[r] = weight * std::sin(row[r]), phi[R + r] = weight * std::cos(row[r]);
      continue;
    }
    for (int64_t r = 0; r < R; ++r) phi[r] = exp_of(row[r] - w - largest[r]);
    for (int64_t r = R; r < F; ++r) phi[r] = exp_of(-row[r - R] - w - largest[r]);
  }
  return keys;
}

// The features of rows of queries that meet `keys`, with the keys' logs on them, each row divided by its largest:
// a factor of a row, like its exp(-w) or exp(+w), cancels.
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
    const float most = *std::max_element(phi, phi + F);
    for (int64_t f = 0; f < F; ++f) phi[f] = exp_of(phi[f] - most);
  }
  return result;
}

// The errors of one row of B = weights / sum of weights; `outputs` are weights v.
struct RowErrors {
  double matrix, output;
  bool left_out;
};

RowErrors row_errors(const float* weights, const float* outputs, const float* exact, const float* exact_outputs,
                     int64_t N, int64_t M) {
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
void measure(Estimate& estimate, const Tensor& q, const Tensor& v, const KeyFeatures& keys, const Tensor& exact,
             const Tensor& exact_outputs) {
  const int64_t N = v.size(0), M = v.size(1);
  for (int64_t first = 0; first < q.size(0); first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, q.size(0) - first);
    const Tensor phi = query_features(estimate.kind, q.rows(first, rows), estimate.omega, keys);
    const Tensor weights = ops::matmul(phi, keys.rows, false, true), outputs = ops::matmul(weights, v);
    std::vector<RowErrors> errors(static_cast<size_t>(rows));
#pragma omp parallel for num_threads(context().threads)
    for (int64_t i = 0; i < rows; ++i)
      errors[static_cast<size_t>(i)] =
          row_errors(weights.data<float>() + i * N, outputs.data<float>() + i * M,
                     exact.data<float>() + (first + i) * N, exact_outputs.data<float>() + (first + i) * M, N, M);
    for (const RowErrors& row : errors) {  // in order, so that two runs give the same sum
      estimate.matrix_sum += row.matrix;
      estimate.output_sum += row.output;
      ++(row.left_out ? estimate.rows_left_out : estimate.rows);
    }
  }
}

// Prints how far it is; its units are products of features.
class ApproxProgress {
 public:
  ApproxProgress(const ApproxOptions& options, double total) : options_(options), total_(total) {}
  void add(int64_t draw, double units) {
    done_ += units;
    if (!progress_.due()) return;
    progress_.show(fmt::format("draw {} of {}, {:.0f}% done, {} left", draw + 1, options_.draws,
                               100 * done_ / total_, duration_text(watch_.seconds() * (total_ - done_) / done_)));
  }

 private:
  const ApproxOptions& options_;
  double total_, done_ = 0;
  Progress progress_;
  Stopwatch watch_;
};

// One draw of q, k, v and of every omega: all omega of a draw start from the same numbers, so that features,
// projections and counts are compared on equal terms.
void run_draw(const ApproxOptions& options, int64_t draw, std::vector<Estimate>& estimates,
              ApproxProgress& progress) {
  const int64_t N = options.length, D = options.key_size;
  const Tensor q = normal_rows(options, 0, draw), k = normal_rows(options, 1, draw),
               v = normal_rows(options, 2, draw);
  const std::vector<float> half = half_squares(k);
  const RandomStream stream{static_cast<uint64_t>(options.seed), Purpose::features, 0,
                            static_cast<uint64_t>(draw)};
  for (Estimate& estimate : estimates) {
    const int64_t R = estimate.features / features_a_row(estimate.kind);
    estimate.omega = to_tensor(draw_projection(estimate.drawn_as, R, D, stream), {R, D});
    estimate.matrix_sum = estimate.output_sum = 0;
    estimate.rows = 0;
  }
  const int64_t held = std::max(kBlockRows, kHeldElements / N / kBlockRows * kBlockRows);
  for (int64_t first = 0; first < N; first += held) {
    const Tensor rows = q.rows(first, std::min(held, N - first));
    const Tensor exact = ops::softmax(ops::matmul(rows, k, false, true, 1 / std::sqrt(static_cast<double>(D))));
    const Tensor exact_outputs = ops::matmul(exact, v);
    for (Estimate& estimate : estimates) {
      // Keys' features are made again for every part of the rows: those of all estimates together would need
      // more memory than the matrix that is never held as a whole.
      measure(estimate, rows, v, key_features(estimate.kind, k, half, estimate.omega), exact, exact_outputs);
      progress.add(draw, static_cast<double>(rows.size(0)) * static_cast<double>(estimate.features + 64));
    }
  }
  for (Estimate& estimate : estimates) {
    if (estimate.rows == 0) continue;
    estimate.matrix_errors.push_back(estimate.matrix_sum / static_cast<double>(estimate.rows));
    estimate.output_errors.push_back(estimate.output_sum / static_cast<double>(estimate.rows));
  }
}

// Over draws. NaN: a mean of none, a standard error of one.
struct Summary {
  double mean, standard_error, median;
};

Summary summarise(std::vector<double> errors) {
  const double none = std::numeric_limits<double>::quiet_NaN(), n = static_cast<double>(errors.size());
  if (errors.empty()) return {none, none, none};
  double mean = 0, squares = 0;
  for (const double error : errors) mean += error / n;
  for (const double error : errors) squares += (error - mean) * (error - mean);
  std::sort(errors.begin(), errors.end());
  const size_t half = errors.size() / 2;
  const double median = errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
  return {mean, errors.size() < 2 ? none : std::sqrt(squares / (n - 1) / n), median};
}

// JSON has no NaN: a number that is not finite becomes a string.
nlohmann::json number(double x) {
  if (std::isfinite(x)) return x;
  return fmt::format("{}", x);
}

nlohmann::ordered_json to_json(const Summary& summary) {
  return {{"mean", number(summary.mean)},
          {"stderr", number(summary.standard_error)},
          {"median", number(summary.median)}};
}

void print_json(const std::vector<Estimate>& estimates) {
  for (const Estimate& estimate : estimates) {
    const nlohmann::ordered_json line = {{"feature", estimate.feature},
                                         {"projection", estimate.projection},
                                         {"features", estimate.features},
                                         {"matrix_mse", to_json(summarise(estimate.matrix_errors))},
                                         {"output_mse", to_json(summarise(estimate.output_errors))},
                                         {"rows_left_out", estimate.rows_left_out}};
    fmt::print("{}\n", line.dump());
  }
}

void print_table(const ApproxOptions& options, const std::vector<Estimate>& estimates) {
  fmt::print("mean squared errors against softmax attention, over {} draws\n", options.draws);
  fmt::print("q, k, v ~ N(0, {:g}^2), N {}, D = M = {}, both directions\n\n", options.deviation, options.length,
             options.key_size);
  fmt::print("{:<11} {:<11} {:>8} {:>11} {:>9} {:>11} {:>11} {:>9} {:>11} {:>9}\n", "feature", "projection",
             "features", "matrix mean", "+-", "median", "output mean", "+-", "median", "left out");
  int64_t left_out = 0;
  for (const Estimate& estimate : estimates) {
    const Summary matrix = summarise(estimate.matrix_errors), output = summarise(estimate.output_errors);
    fmt::print("{:<11} {:<11} {:>8} {:>11.3e} {:>9.1e} {:>11.3e} {:>11.3e} {:>9.1e} {:>11.3e} {:>9}\n",
               estimate.feature, estimate.projection, estimate.features, matrix.mean, matrix.standard_error,
               matrix.median, output.mean, output.standard_error, output.median, estimate.rows_left_out);
    left_out += estimate.rows_left_out;
  }
  fmt::print("\n+- is the standard error of the mean over draws.\n");
  if (left_out > 0)
    fmt::print(
        "left out: of {} rows each, those whose weights cancel, |sum a| < 1e-3 sum |a|; they are in no mean.\n",
        options.length * options.draws);
}

std::string csv_text(const std::vector<Estimate>& estimates) {
  std::string text =
      "feature,projection,features,matrix_mse_mean,matrix_mse_stderr,matrix_mse_median,"
      "output_mse_mean,output_mse_stderr,output_mse_median,rows_left_out\n";
  for (const Estimate& estimate : estimates) {
    text += fmt::format("{},{},{}", estimate.feature, estimate.projection, estimate.features);
    for (const std::vector<double>* errors : {&estimate.matrix_errors, &estimate.output_errors}) {
      const Summary summary = summarise(*errors);
      text += fmt::format(",{:.9g},{:.9g},{:.9g}", summary.mean, summary.standard_error, summary.median);
    }
    text += fmt::format(",{}\n", estimate.rows_left_out);
  }
  return text;
}

Chart error_chart(const ApproxOptions& options, const std::vector<Estimate>& estimates, const std::string& what,
                  std::vector<double> Estimate::*errors) {
  Chart chart;
  chart.title = fmt::format("Random features for softmax: {} (N {}, D {}, deviation {:g})", what, options.length,
                            options.key_size, options.deviation);
  chart.x = {"features F", true, std::vector<double>(options.counts.begin(), options.counts.end())};
  chart.y = {fmt::format("mean squared error, median of {} draws", options.draws), true};
  for (const Estimate& estimate : estimates) {
    const std::string name = estimate.feature + ", " + estimate.projection;
    if (chart.series.empty() || chart.series.back().name != name)  // estimates stand in order
      chart.series.push_back({name, {}, {}, static_cast<int>(estimate.kind), static_cast<int>(estimate.drawn_as)});
    chart.series.back().x.push_back(static_cast<double>(estimate.features));
    chart.series.back().y.push_back(summarise(estimate.*errors).median);
  }
  return chart;
}

void check_range(const char* flag, int64_t value, int64_t least, int64_t most) {
  require(value >= least && value <= most, "{} is {}; it must be from {} to {}", flag, value, least, most);
}

// Every feature with every projection at every count, in that order.
std::vector<Estimate> asked_estimates(const ApproxOptions& options) {
  check_range("--length", options.length, 1, int64_t{1} << 24);
  check_range("--key-size", options.key_size, 1, 4096);
  check_range("--draws", options.draws, 1, 1000000);
  check_range("--seed", options.seed, 0, std::numeric_limits<int64_t>::max());
  require(options.deviation > 0 && options.deviation <= 10, "--deviation is {}; it must be above 0 and at most 10",
          options.deviation);
  std::vector<Estimate> result;
  for (const std::string& feature : options.features)
    for (const std::string& projection : options.projections)
      for (const int64_t count : options.counts) {
        check_range("a number in --counts", count, 1, int64_t{1} << 20);
        const Kind kind = kind_of(feature);
        require(count % features_a_row(kind) == 0, "--counts has {}; {} makes two features of a row of omega, "
                "so the number must be even", count, feature);
        result.push_back({feature, projection, kind, projection_of(projection), count});
      }
  return result;
}

void run_approx(const ApproxOptions& options) {
  std::vector<Estimate> estimates = asked_estimates(options);
  if (options.threads != 0) set_threads(static_cast<int>(options.threads));
  for (const std::string& path : {options.csv, options.svg})
    if (!path.empty()) AtomicFile probe(path);  // a folder that takes no files is an error now, not in minutes
  double units = 0;
  for (const Estimate& estimate : estimates)
    units += static_cast<double>(options.draws * options.length) * static_cast<double>(estimate.features + 64);
  {
    ApproxProgress progress(options, units);
    for (int64_t draw = 0; draw < options.draws; ++draw) run_draw(options, draw, estimates, progress);
  }
  options.json ? print_json(estimates) : print_table(options, estimates);
  if (!options.csv.empty()) write_file_atomically(options.csv, csv_text(estimates));
  if (!options.svg.empty())
    write_charts(options.svg, {error_chart(options, estimates, "output", &Estimate::output_errors),
                               error_chart(options, estimates, "attention matrix", &Estimate::matrix_errors)});
}

}  // namespace

void add_approx(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<ApproxOptions>();
  CLI::App* verb = program.add_subcommand("approx", "measure how well random features estimate softmax attention");
  verb->footer(
      "Errors are those of the attention matrix, rows of it summing to 1, and of the output. hyperbolic and trig\n"
      "make two features of a random direction, so at equal --counts they use half as many. trig's weights have\n"
      "signs and may cancel: rows with |sum a| < 1e-3 sum |a| are counted and left out of the means. The relu\n"
      "features of performer are not among these: they do not estimate softmax.");
  verb->add_option("--features", options->features, "comma-separated: positive, hyperbolic, trig")
      ->delimiter(',')->capture_default_str();
  verb->add_option("--projections", options->projections,
                   "comma-separated: iid, orthogonal, stratified, fixed-norm")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--counts", options->counts, "comma-separated numbers of features")
      ->delimiter(',')->capture_default_str();
  verb->add_option("--deviation", options->deviation, "standard deviation of q, k and v")->capture_default_str();
  verb->add_option("--length", options->length, "N, rows of q, k and v")->capture_default_str();
  verb->add_option("--key-size", options->key_size, "D = M")->capture_default_str();
  verb->add_option("--draws", options->draws, "of q, k, v and of the random directions")->capture_default_str();
  verb->add_option("--seed", options->seed, "of everything that is drawn")->capture_default_str();
  verb->add_option("--csv", options->csv, "write the table to this file");
  verb->add_option("--svg", options->svg, "draw the medians to this file");
  verb->add_option("--threads", options->threads, "processor threads; 0: all cores")->capture_default_str();
  verb->add_flag("--json", options->json, "one JSON object a line");
  verb->callback([options, &exit_code] {
    run_approx(*options);
    exit_code = 0;
  });
}

}  // namespace linea
