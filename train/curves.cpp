#include "train/curves.h"

#include <algorithm>
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

Series curve(const RunHistory& history, const std::string& metric, const std::string& x) {
  Series series;
  for (const MetricsLine& line : history.lines) {
    if (line.values.count(metric) == 0) continue;
    series.x.push_back(x == "step" ? static_cast<double>(line.step) : line.value(x));
    series.y.push_back(line.value(metric));
  }
  thin_out(series);
  return series;
}

// The title of a metric's chart, and the label of its axis.
std::pair<std::string, std::string> title_and_label(const std::string& metric) {
  if (metric == "loss") return {"loss", "nats per token"};
  if (metric == "bits") return {"bits", "bits per token"};
  return {metric == "lr" ? "learning rate" : metric, ""};
}

}  // namespace

Chart metric_chart(const std::string& metric, const std::vector<RunHistory>& runs,
                   const std::vector<std::string>& names, bool over_time) {
  const char* x = over_time ? "elapsed_s" : "step";
  double longest = 0;
  for (const RunHistory& run : runs) longest = std::max(longest, run.seconds());
  const TimeUnit unit = time_unit(longest);
  Chart chart;
  std::tie(chart.title, chart.y.label) = title_and_label(metric);
  chart.x.label = over_time ? fmt::format("training time, {}", unit.name) : "step";
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const bool validation : {false, true}) {
      Series series = curve(runs[i], (validation ? "val_" : "") + metric, x);
      if (series.x.empty()) continue;
      if (over_time)
        for (double& seconds : series.x) seconds /= unit.seconds;
      series.name = names[i] + (validation ? ", validation" : "");
      series.color = static_cast<int>(i);
      series.dash = validation ? 1 : 0;
      series.markers = validation;
      chart.series.push_back(series);
    }
  }
  return chart;
}

}  // namespace linea
