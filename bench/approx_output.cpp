// The results of linea approx: summaries over draws, as a table, as JSON and CSV, and as charts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/approx.h"
#include "data/chart.h"
#include "data/json.h"

namespace linea::approx {
namespace {

// Over draws. NaN: a mean of none, a standard error of one.
struct Summary {
  double mean, standard_error, median;
};

Summary summarize(std::vector<double> errors) {
  const double none = std::numeric_limits<double>::quiet_NaN(),
               n = static_cast<double>(errors.size());
  if (errors.empty()) return {none, none, none};
  double mean = 0, squares = 0;
  for (const double error : errors) mean += error / n;
  for (const double error : errors) squares += (error - mean) * (error - mean);
  std::sort(errors.begin(), errors.end());
  const size_t half = errors.size() / 2;
  const double median =
      errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
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

Chart error_chart(const Options& options, const std::vector<Estimate>& estimates,
                  const std::string& what, std::vector<double> Estimate::*errors) {
  Chart chart;
  chart.title = fmt::format("Random features for softmax: {} (N {}, D {}, stddev {:g})", what,
                            options.length, options.key_size, options.stddev);
  chart.x = {"features F", true, std::vector<double>(options.counts.begin(), options.counts.end())};
  chart.y = {fmt::format("mean squared error, median of {} draws", options.draws), true};
  for (const Estimate& estimate : estimates) {
    const std::string name = estimate.feature + ", " + estimate.projection;
    if (chart.series.empty() || chart.series.back().name != name)  // estimates are in order
      chart.series.push_back(
          {name, {}, {}, static_cast<int>(estimate.kind), static_cast<int>(estimate.sampled_as)});
    chart.series.back().x.push_back(static_cast<double>(estimate.features));
    chart.series.back().y.push_back(summarize(estimate.*errors).median);
  }
  return chart;
}

}  // namespace

void print_json(const std::vector<Estimate>& estimates) {
  for (const Estimate& estimate : estimates) {
    const nlohmann::ordered_json line = {{"feature", estimate.feature},
                                         {"projection", estimate.projection},
                                         {"features", estimate.features},
                                         {"matrix_mse", to_json(summarize(estimate.matrix_errors))},
                                         {"output_mse", to_json(summarize(estimate.output_errors))},
                                         {"rows_left_out", estimate.rows_left_out}};
    fmt::print("{}\n", dump_json(line));
  }
}

void print_table(const Options& options, const std::vector<Estimate>& estimates) {
  fmt::print("mean squared errors against softmax attention, over {} draws\n", options.draws);
  fmt::print("q, k, v ~ N(0, {:g}^2), N {}, D = M = {}, non-causal\n\n", options.stddev,
             options.length, options.key_size);
  fmt::print("{:<10} {:<10} {:>8} {:>10} {:>7} {:>10} {:>10} {:>7} {:>10} {:>8}\n", "feature",
             "projection", "features", "matrix MSE", "+-", "median", "output MSE", "+-", "median",
             "rows out");
  int64_t left_out = 0;
  for (const Estimate& estimate : estimates) {
    const Summary matrix = summarize(estimate.matrix_errors),
                  output = summarize(estimate.output_errors);
    fmt::print(
        "{:<10} {:<10} {:>8} {:>10.3e} {:>7.1e} {:>10.3e} {:>10.3e} {:>7.1e} {:>10.3e} {:>8}\n",
        estimate.feature, estimate.projection, estimate.features, matrix.mean,
        matrix.standard_error, matrix.median, output.mean, output.standard_error, output.median,
        estimate.rows_left_out);
    left_out += estimate.rows_left_out;
  }
  fmt::print("\nMSE: mean over draws, without a unit; +-: its standard error.\n");
  if (left_out > 0)
    fmt::print(
        "excluded from the means: of {} rows each, those whose weights cancel, |sum a| < 1e-3 sum "
        "|a|.\n",
        options.length * options.draws);
}

std::string csv_text(const std::vector<Estimate>& estimates) {
  std::string text =
      "feature,projection,features,matrix_mse_mean,matrix_mse_stderr,matrix_mse_median,"
      "output_mse_mean,output_mse_stderr,output_mse_median,rows_left_out\n";
  for (const Estimate& estimate : estimates) {
    text += fmt::format("{},{},{}", estimate.feature, estimate.projection, estimate.features);
    for (const std::vector<double>* errors : {&estimate.matrix_errors, &estimate.output_errors}) {
      const Summary summary = summarize(*errors);
      text += fmt::format(",{:.9g},{:.9g},{:.9g}", summary.mean, summary.standard_error,
                          summary.median);
    }
    text += fmt::format(",{}\n", estimate.rows_left_out);
  }
  return text;
}

void write_error_charts(const std::string& path, const Options& options,
                        const std::vector<Estimate>& estimates) {
  write_charts(path,
               {error_chart(options, estimates, "output", &Estimate::output_errors),
                error_chart(options, estimates, "attention matrix", &Estimate::matrix_errors)});
}

}  // namespace linea::approx
