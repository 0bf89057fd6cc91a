// linea plot: curves of runs over steps or time, as an SVG.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <tuple>

#include "cli/commands.h"
#include "cli/flags.h"
#include "data/chart.h"
#include "data/files.h"
#include "train/run_history.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMaxPoints = 300;  // of a curve, half of its pixels

struct PlotOptions {
  std::vector<std::string> runs, metrics = {"loss", "bits", "lr"};
  std::string svg, over = "steps";
};

// A unit in which the longest time is a number of few digits.
struct TimeUnit {
  const char* name;
  double seconds;
};
TimeUnit time_unit(double longest) {
  if (longest >= 3 * 3600) return {"hours", 3600};
  return longest >= 3 * 60 ? TimeUnit{"minutes", 60} : TimeUnit{"seconds", 1};
}

// Means of as many consecutive points as it takes for kMaxPoints.
void thin_out(Series& series) {
  const size_t group = (series.x.size() + kMaxPoints - 1) / kMaxPoints;
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

// The curves of a metric and of its validation, over the same axis.
Chart make_chart(const std::string& metric, const std::vector<RunHistory>& runs,
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

// The last parts of the paths, as many as it takes to tell them apart.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    const fs::path clean = (fs::path(path) / "").parent_path();
    names.push_back(clean.filename().string());
  }
  const std::set<std::string> different(names.begin(), names.end());
  return different.size() == names.size() ? names : paths;
}

void check_metrics(const std::vector<std::string>& metrics, const std::vector<RunHistory>& runs) {
  std::set<std::string> known;
  for (const RunHistory& run : runs)
    for (const MetricsLine& line : run.lines)
      for (const auto& [name, value] : line.values)
        known.insert(name.rfind("val_", 0) == 0 ? name.substr(4) : name);
  for (const std::string& metric : metrics)
    require(known.count(metric) != 0, "--metrics has '{}', which no run recorded; choose from {}",
            metric, fmt::join(known, ", "));
}

void run_plot(const PlotOptions& options) {
  require(options.over == "steps" || options.over == "time", "--over is '{}'; choose steps or time",
          options.over);
  std::vector<RunHistory> runs;
  for (const std::string& run : options.runs) {
    std::error_code error;
    if (!fs::exists(run, error)) fail(ErrorKind::input, "{} does not exist", run);
    runs.push_back(read_history(run));
    if (runs.back().lines.empty())
      fail(ErrorKind::input,
           "{} has no metrics.jsonl with a step: it is not a run of linea train, "
           "or has not recorded anything yet",
           run);
  }
  check_metrics(options.metrics, runs);
  std::vector<Chart> charts;
  for (const std::string& metric : options.metrics)
    charts.push_back(make_chart(metric, runs, short_names(options.runs), options.over == "time"));
  write_charts(options.svg, charts);
  std::printf("%s\n", options.svg.c_str());
}

}  // namespace

void add_plot(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<PlotOptions>();
  CLI::App& command =
      add_command(program, "plot", "plot loss, bits and learning rate of runs as an SVG",
                  fmt::format("Example:  linea plot runs/linear runs/softmax --svg losses.svg\n\nA "
                              "curve of more than {} points shows means of consecutive ones.",
                              kMaxPoints));
  add_option(command, "RUN", options->runs, "one run or more", OptionKind::required);
  add_option(command, "--svg", options->svg, "the file to write", OptionKind::required);
  add_option(command, "--over", options->over, "the horizontal axis", OptionKind::shows_default);
  set_choices(command, "--over", {"steps", "time"});
  add_option(command, "--metrics", options->metrics,
             "comma-separated names from metrics.jsonl, a chart each, with validation where there "
             "is one",
             OptionKind::comma_separated);
  set_action(command, [options, &exit_code] {
    run_plot(*options);
    exit_code = 0;
  });
}

}  // namespace linea
