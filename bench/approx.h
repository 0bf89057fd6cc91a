// How well random features estimate softmax attention (Choromanski et al. 2021, "Rethinking
// attention with Performers", figure 4: errors against the number of features, for features and
// projections).
//
// q, k, v of N rows ~ N(0, stddev^2), x^ = x / D^(1/4). For both directions, so no mask:
//
//   A_ij = exp(q^_i.k^_j) / sum_j exp(q^_i.k^_j)           y = A v
//   B_ij = phi(q^_i).phi(k^_j) / sum_j phi(q^_i).phi(k^_j)  the same of the features, with y' = B v
//   errors: the means of (B_ij - A_ij)^2 and of (y'_im - y_im)^2, over rows, keys and values
#pragma once

#include <string>
#include <vector>

#include "nn/random_projection.h"
#include "tensor/tensor.h"
#include "train/record/progress.h"

namespace linea::approx {

struct Options {
  std::vector<std::string> features = {"positive", "hyperbolic", "trig"};
  std::vector<std::string> projections = projection_names();
  std::vector<int64_t> counts = {16, 32, 64, 128, 256, 512, 1024};
  double stddev = 1;
  int64_t length = 4096, key_size = 16, draws = 15, seed = 1, threads = 0;
  std::string csv, svg;
  bool json = false;
};

// F is the number of features: R rows of omega make as many positive features, and two each of the
// other kinds.
//
//   u = omega x^, w = |x^|^2 / 2 = |x|^2 / (2 sqrt D), without the factor that cancels in B:
//   positive    phi = exp(u - w)
//   hyperbolic  phi = exp(-w) [exp(u), exp(-u)]
//   trig        phi = exp(+w) [sin u, cos u]
enum class Kind { positive, hyperbolic, trig };

// Error: ErrorKind::usage for a name that is none of these.
Kind kind_of(const std::string& name);
int64_t features_a_row(Kind kind);

// One line of the results, and its errors draw by draw.
struct Estimate {
  std::string feature, projection;
  Kind kind;
  Projection sampled_as;
  int64_t features;
  std::vector<double> matrix_errors = {}, output_errors = {};  // of the draws with a row to measure
  int64_t rows_left_out = 0;
  Tensor omega = {};                      // of the draw that runs
  double matrix_sum = 0, output_sum = 0;  // of its rows so far
  int64_t rows = 0;                       // that were measured
};

// Fills the errors of all estimates and reports progress.
void measure_errors(const Options& options, std::vector<Estimate>& estimates,
                    ProgressReporter& reporter);

// Results, on stdout and for files (bench/approx_output.cpp).
void print_json(const std::vector<Estimate>& estimates);
void print_table(const Options& options, const std::vector<Estimate>& estimates);
std::string csv_text(const std::vector<Estimate>& estimates);
// The medians of the outputs' errors and of the matrix's against F.
void write_error_charts(const std::string& path, const Options& options,
                        const std::vector<Estimate>& estimates);

}  // namespace linea::approx
