#include "train/record/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace linea {
namespace {

// A unit in which the longest time is a number of few digits.
struct TimeUnit {
  const char* name;
  double seconds;
};
TimeUnit time_unit(double longest) {
  if (longest >= 3 * 3600) return {"hours", 3600};
  return longest >= 3 * 60 ? TimeUnit{"minutes", 60} : TimeUnit{"seconds", 1};
}

// Means of as many consecutive points as it takes for kMaxCurvePoints.
void thin_out(Series& series) {
  const size_t group = (series.x.size() + kMaxCurvePoints - 1) / kMaxCurvePoints;
  if (group <= 1) return;
  const auto means = [&](const std::vector<double>& values) {
    std::vector<double> result;
    for (size_t first = 0; first < values.size(); first += group) {
      const size_t end = std::min(first + group, values.size());
      double sum = 0;
      for (size_t i = first; i < end; ++i) sum += values[i];
      result.push_back(sum / static_cast<double>(end - first));
    }
    return result;
  };
  series.x = means(series.x);
  series.y = means(series.y);
}

// The part of a curve that metrics.jsonl has under another name than its chart.
struct Part {
  std::string key, name;
  bool exact = true;  // measured on its own, not on the batches of training: never smoothed
};

bool is_validation(const std::string& metric) { return metric.starts_with("val_"); }

// In the order in which they are shown.
std::vector<Part> parts_of(const std::string& metric) {
  const std::string average = "validation, averaged";
  if (is_validation(metric)) return {{metric, "validation"}, {metric + "_ema", average}};
  if (metric.starts_with("judge_")) return {{metric, "samples"}, {metric + "_real", "real data"}};
  return {{metric, "training", false},
          {"val_" + metric, "validation"},
          {"val_" + metric + "_ema", average}};
}

// `style` with the points of a metric, and their steps.
struct Curve {
  Series series;
  std::vector<int64_t> steps;
};
Curve curve(const RunHistory& history, const std::string& metric, const Series& style,
            const CurveOptions& options) {
  Curve result{style, {}};
  for (const MetricsLine& line : history.lines) {
    if (line.values.count(metric) == 0 || line.step < options.from) continue;
    result.steps.push_back(line.step);
    result.series.x.push_back(options.over_time ? line.value("elapsed_s")
                                                : static_cast<double>(line.step));
    result.series.y.push_back(line.value(metric));
  }
  return result;
}

// y_i = mean of the finite y_j with |step_j - step_i| <= span / 2; gaps stay gaps.
void smooth(std::vector<double>& y, const std::vector<int64_t>& steps, int64_t span) {
  std::vector<double> result(y.size());
  size_t first = 0, end = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    while (2 * (steps[i] - steps[first]) > span) ++first;
    while (end < y.size() && 2 * (steps[end] - steps[i]) <= span) ++end;
    double sum = 0, count = 0;
    for (size_t j = first; j < end; ++j)
      if (std::isfinite(y[j])) sum += y[j], ++count;
    result[i] = std::isfinite(y[i]) ? sum / count : y[i];
  }
  y = result;
}

// Adds the curve of a part, and the pale one behind it where it is smoothed.
void add_curve(Chart& chart, const RunHistory& history, const Part& part, const Series& style,
               const CurveOptions& options) {
  auto [series, steps] = curve(history, part.key, style, options);
  if (series.x.empty()) return;
  if (options.smooth > 0 && !part.exact) {
    chart.series.push_back(series);
    chart.series.back().faint = true;
    chart.series.back().width = 1;
    thin_out(chart.series.back());
    smooth(series.y, steps, options.smooth);
  }
  thin_out(series);
  chart.series.push_back(series);
}

// Curves of one kind need no name for it; where there are several, training has thin lines.
void name_parts(Chart& chart) {
  std::set<std::string> parts;
  for (const Series& series : chart.series) parts.insert(series.part);
  for (Series& series : chart.series) {
    const bool training = series.part == "training";
    if (training && parts.size() > 1 && !series.faint) series.width = 1.4;
    if ((training || series.part == "samples") && parts.size() == 1) series.part.clear();
  }
}

// The title of a metric's chart, and the label of its axis.
std::pair<std::string, std::string> title_and_label(const std::string& metric) {
  static const std::map<std::string, std::pair<std::string, std::string>> known = {
      {"loss", {"loss", "nats per token"}},
      {"val_loss", {"validation loss", "nats per token"}},
      {"bits", {"bits", "bits per token"}},
      {"val_bits", {"validation bits", "bits per token"}},
      {"lr", {"learning rate", ""}},
      {"grad_norm", {"gradient norm", "before clipping"}},
      {"tokens_per_s", {"tokens per second", ""}},
  };
  const auto found = known.find(metric);
  return found == known.end() ? std::pair<std::string, std::string>{metric, ""} : found->second;
}

}  // namespace

std::set<std::string> chart_metrics(const std::vector<RunHistory>& runs) {
  std::set<std::string> names;
  for (const RunHistory& run : runs)
    for (const MetricsLine& line : run.lines)
      for (const auto& [name, value] : line.values) {
        if (name.starts_with("whole_")) continue;
        names.insert(name);
        if (is_validation(name) && !name.ends_with("_ema")) names.insert(name.substr(4));
      }
  return names;
}

Chart metric_chart(const std::string& metric, const std::vector<RunHistory>& runs,
                   const std::vector<std::string>& names, const CurveOptions& options) {
  double longest = 0;
  for (const RunHistory& run : runs) longest = std::max(longest, run.seconds());
  const TimeUnit unit = time_unit(longest);
  Chart chart;
  std::tie(chart.title, chart.y.label) = title_and_label(metric);
  chart.y.logarithmic = options.logarithmic;
  chart.x.label = options.over_time ? fmt::format("training time, {}", unit.name) : "step";
  for (size_t i = 0; i < runs.size(); ++i)
    for (const Part& part : parts_of(metric)) {
      Series style;
      style.name = names[i];
      style.part = part.name;
      style.color = static_cast<int>(i) % kChartColors;
      style.dash = static_cast<int>(i) / kChartColors;
      style.markers = part.exact;
      style.hollow = part.name == "validation, averaged" || part.name == "real data";
      add_curve(chart, runs[i], part, style, options);
    }
  name_parts(chart);
  if (options.over_time)
    for (Series& series : chart.series)
      for (double& seconds : series.x) seconds /= unit.seconds;
  return chart;
}

}  // namespace linea
