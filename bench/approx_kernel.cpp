#include "bench/approx_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/approx.h"
#include "data/json.h"
#include "nn/attention/mapped_attention.h"

namespace linea::approx {
namespace {

constexpr int64_t kHeads = 1000;      // draws at a time: each head has its omega
constexpr int64_t kMaxDraws = 65000;  // streams of random numbers
constexpr double kPi = 3.14159265358979323846;

// E X^2, X^3 and X^4 of one row's estimate over its mean.
struct Moments {
  double second, third, fourth;
  double variance() const { return second - 1; }
  // For the mean of `rows`, whose errors have mean square variance / rows: the standard error of
  // that mean square over `draws`, as a share of it.
  double standard_error(double rows, double draws) const {
    const double central = fourth - 4 * third + 6 * second - 3,
                 kurtosis = 3 + (central / (variance() * variance()) - 3) / rows;
    return variance() == 0 ? 0 : std::sqrt((kurtosis - 1) / draws);
  }
};

// u ~ N(0, x) for exp(u - x/2) and cosh(u) exp(-x/2); of cos(u) exp(x/2), u ~ N(0, x), with -x.
Moments moments(Kind kind, double x) {
  if (kind == Kind::positive) return {std::exp(x), std::exp(3 * x), std::exp(6 * x)};
  return {std::cosh(x), (std::exp(3 * x) + 3 * std::exp(-x)) / 4,
          (std::exp(6 * x) + 4 + 3 * std::exp(-2 * x)) / 8};
}

// [1,H,1,D] of one row, in all heads.
Tensor in_heads(const std::vector<double>& row, int64_t heads) {
  std::vector<double> values;
  for (int64_t head = 0; head < heads; ++head) values.insert(values.end(), row.begin(), row.end());
  return Tensor::from(values, {1, heads, 1, static_cast<int64_t>(row.size())});
}

std::unique_ptr<Attention> performer(const KernelOptions& options, const std::string& feature,
                                     int64_t heads, int64_t batch) {
  AttentionOptions chosen{"performer"};
  chosen.settings["feature"] = feature;
  chosen.settings["features"] = options.rows;
  chosen.settings["projection"] = "iid";
  chosen.heads = heads;
  chosen.layer = batch;  // its own random numbers
  chosen.key_size = options.key_size;
  chosen.seed = static_cast<uint64_t>(options.seed);
  chosen.dtype = DType::f64;
  return make_attention(chosen);
}

// The sum over heads of squared relative errors of the pair.
double squared_errors(const KernelOptions& options, const Attention& attention, Kind kind,
                      const KernelError& pair, int64_t heads) {
  const double root = std::pow(static_cast<double>(options.key_size), 0.25),
               angle = pair.angle * kPi / 180, square = pair.length * pair.length;
  std::vector<double> q(static_cast<size_t>(options.key_size)), k = q;
  q[0] = root * pair.length;
  k[0] = root * pair.length * std::cos(angle);
  k[1] = root * pair.length * std::sin(angle);
  const Tensor queries = in_heads(q, heads), keys = in_heads(k, heads);
  const naive::Inputs f = dynamic_cast<const MappedAttention&>(attention).features_of(
      {Var(queries), Var(keys), Var(keys), Var()}, {});
  const std::vector<double> a = f.q.value().to_doubles(), b = f.k.value().to_doubles();
  // What the map leaves out: a query's exp(-|q^|^2 / 2) or exp(+|q^|^2 / 2), and 1 / F. A key of
  // trig has exp(+|k^|^2 / 2) as its weight.
  const double sign = kind == Kind::trig ? 1 : -1,
               left_out = sign * square / 2 + (kind == Kind::trig ? square / 2 : 0);
  const size_t F = a.size() / static_cast<size_t>(heads);
  const double truth = square * std::cos(angle),
               count = static_cast<double>(options.rows * (kind == Kind::hyperbolic ? 2 : 1));
  double sum = 0;
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
    double estimate = 0;
    for (size_t i = head * F; i < (head + 1) * F; ++i)
      estimate += f.logs ? std::exp(a[i] + b[i] + left_out - truth)
                         : a[i] * b[i] * std::exp(left_out - truth);
    const double error = estimate / count - 1;
    sum += error * error;
  }
  return sum;
}

void check(const char* flag, int64_t value, int64_t min, int64_t max) {
  require(value >= min && value <= max, "{} is {}; with --kernel it must be from {} to {}", flag,
          value, min, max);
}

}  // namespace

std::vector<KernelError> measure_kernel(const KernelOptions& options) {
  check("--rows", options.rows, 1, 4096);
  check("--key-size", options.key_size, 2, 256);
  check("--draws", options.draws, 100, kMaxDraws);
  check("--seed", options.seed, 0, std::numeric_limits<int64_t>::max());
  const NoGrad no_grad;
  std::vector<KernelError> result;
  for (const std::string& feature : options.features) {
    const Kind kind = kind_of(feature);
    std::vector<KernelError> pairs;
    for (const double length : {1.0, 2.0})
      for (const double angle : {0.0, 90.0, 180.0})
        pairs.push_back({feature, length, angle, 0, 0, 0, 0});
    const auto draws = static_cast<double>(options.draws), rows = static_cast<double>(options.rows);
    for (int64_t first = 0; first < options.draws; first += kHeads) {
      // All batches have as many heads, so that each has its own streams.
      const int64_t used = std::min(kHeads, options.draws - first);
      const std::unique_ptr<Attention> attention =
          performer(options, feature, kHeads, first / kHeads);
      for (KernelError& pair : pairs)
        pair.measured += squared_errors(options, *attention, kind, pair, used) / draws;
    }
    for (KernelError& pair : pairs) {
      const double cosine = std::cos(pair.angle * kPi / 180),
                   square = 2 * pair.length * pair.length *
                            (kind == Kind::trig ? cosine - 1 : 1 + cosine);
      const Moments row = moments(kind, square);
      pair.standard_error = row.standard_error(rows, draws);
      const double mean_square = row.variance() / rows;
      const bool exact = mean_square < 1e-15 && pair.measured < 1e-15;
      pair.standard_errors =
          exact ? std::numeric_limits<double>::quiet_NaN()
                : (pair.measured - mean_square) / (mean_square * pair.standard_error);
      pair.measured = std::sqrt(pair.measured);
      pair.predicted = std::sqrt(std::max(mean_square, 0.0));
    }
    result.insert(result.end(), pairs.begin(), pairs.end());
  }
  return result;
}

void print_kernel(const KernelOptions& options, const std::vector<KernelError>& errors) {
  if (!options.json)
    fmt::print(
        "root mean squares of relative errors of exp(q.k), q and k scaled to length |x|, over {} "
        "draws of {} iid rows\n\n{:<10} {:>3} {:>5} {:>10} {:>10}  {}\n",
        options.draws, options.rows, "feature", "|x|", "angle", "measured", "predicted",
        "standard errors apart");
  for (const KernelError& error : errors) {
    const bool exact = std::isnan(error.standard_errors);
    if (options.json) {
      nlohmann::ordered_json line = {{"feature", error.feature},     {"length", error.length},
                                     {"angle", error.angle},         {"measured", error.measured},
                                     {"predicted", error.predicted}, {"rare", error.rare()}};
      if (!exact && !error.rare()) line["standard_errors"] = error.standard_errors;
      print_json_line(line);
      continue;
    }
    fmt::print("{:<10} {:>3} {:>5} {:>10.3g} {:>10.3g}  {}\n", error.feature, error.length,
               error.angle, exact ? 0 : error.measured, exact ? 0 : error.predicted,
               exact          ? "exact"
               : error.rare() ? "the mean square lives in draws too rare to be seen"
                              : fmt::format("{:+.1f}", error.standard_errors));
  }
}

}  // namespace linea::approx
