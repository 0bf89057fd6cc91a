// linea plot: curves of runs over steps or time, as an SVG.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/flags.h"
#include "train/record/curves.h"
#include "train/record/run_history.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

struct PlotOptions {
  std::vector<std::string> runs, metrics = {"loss", "bits", "lr"};
  std::string svg, over = "steps";
  int64_t from = 0, smooth = 0;
  bool log = false;
};

// Instead of a folder that holds runs, such as that of a comparison, its runs.
std::vector<std::string> runs_of(const std::vector<std::string>& paths) {
  std::vector<std::string> runs;
  for (const std::string& path : paths) {
    std::error_code error;
    SkippedFolders skipped;
    std::vector<fs::path> found;
    if (!is_run(path) && !fs::exists(fs::path(path) / "metrics.jsonl", error))
      found = find_runs(path, skipped);
    std::erase_if(found,
                  [&](const fs::path& run) { return !fs::exists(run / "metrics.jsonl", error); });
    if (found.empty()) found = {path};
    for (const fs::path& run : found) runs.push_back(run.string());
  }
  return runs;
}

// The last parts of the paths. Where two end alike, what they do not share at the beginning and at
// the end.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& path : paths) {
    std::vector<std::string>& own = parts.emplace_back();
    for (const fs::path& part : (fs::path(path) / "").parent_path()) own.push_back(part.string());
  }
  std::vector<std::string> names;
  for (const auto& own : parts) names.push_back(own.back());
  const std::set<std::string> different(names.begin(), names.end());
  if (different.size() == names.size()) return names;
  const auto shared = [&](const auto& part_of) {
    size_t count = 0;
    const auto agree = [&](const auto& own) {
      return own.size() > count + 1 && *part_of(own, count) == *part_of(parts[0], count);
    };
    while (std::all_of(parts.begin(), parts.end(), agree)) ++count;
    return static_cast<std::ptrdiff_t>(count);
  };
  const std::ptrdiff_t first = shared(
      [](const auto& own, size_t i) { return own.begin() + static_cast<std::ptrdiff_t>(i); });
  for (auto& own : parts) own.erase(own.begin(), own.begin() + first);
  const std::ptrdiff_t last = shared(
      [](const auto& own, size_t i) { return own.rbegin() + static_cast<std::ptrdiff_t>(i); });
  for (size_t i = 0; i < parts.size(); ++i)
    names[i] = fmt::format("{}", fmt::join(parts[i].begin(), parts[i].end() - last, "/"));
  return names;
}

void check_metrics(const std::vector<std::string>& metrics, const std::vector<RunHistory>& runs) {
  const std::set<std::string> known = chart_metrics(runs);
  for (const std::string& metric : metrics) {
    require(!metric.starts_with("whole_"),
            "--metrics has '{}', a number of the last step alone, which is no curve; linea info "
            "shows it",
            metric);
    require(known.count(metric) != 0, "--metrics has '{}', which no run recorded; choose from {}",
            metric, fmt::join(known, ", "));
  }
}

void check_options(const PlotOptions& options) {
  require(options.over == "steps" || options.over == "time", "--over is '{}'; choose steps or time",
          options.over);
  for (const auto& [flag, steps] :
       {std::pair{"--from", options.from}, {"--smooth", options.smooth}})
    require(steps >= 0, "{} is {}; it must be at least 0 steps", flag, steps);
}

void check_from(int64_t from, const std::vector<RunHistory>& runs) {
  int64_t last = 0;
  for (const RunHistory& run : runs) last = std::max(last, run.step());
  require(from <= last, "--from is {}, after the last step of every run, {}", from, last);
}

void run_plot(const PlotOptions& options) {
  check_options(options);
  std::vector<RunHistory> runs;
  const std::vector<std::string> paths = runs_of(options.runs);
  for (const std::string& run : paths) {
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
  check_from(options.from, runs);
  const CurveOptions curves{options.over == "time", options.log, options.from, options.smooth};
  std::vector<Chart> charts;
  for (const std::string& metric : options.metrics)
    charts.push_back(metric_chart(metric, runs, short_names(paths), curves));
  write_charts(options.svg, charts);
  std::printf("%s\n", options.svg.c_str());
}

}  // namespace

void add_plot(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<PlotOptions>();
  CLI::App& command =
      add_command(program, "plot", "plot loss, bits and learning rate of runs as an SVG",
                  fmt::format("Example:  linea plot runs/linear runs/softmax --metrics loss --log "
                              "--from 200 --svg losses.svg\n\nA curve of more than {} points "
                              "shows means of consecutive ones. A browser shows the values under "
                              "the pointer.",
                              kMaxCurvePoints));
  add_option(command, "RUN", options->runs,
             "one run or more; of a folder that holds runs, all of them", OptionKind::required);
  add_option(command, "--svg", options->svg, "the file to write", OptionKind::required);
  add_option(command, "--over", options->over, "the horizontal axis", OptionKind::shows_default);
  set_choices(command, "--over", {"steps", "time"});
  add_option(command, "--metrics", options->metrics,
             "comma-separated names from metrics.jsonl, a chart each; NAME shows val_NAME too",
             OptionKind::comma_separated);
  add_flag(command, "--log", options->log, "a logarithmic vertical axis; it shows no zeros");
  add_option(command, "--from", options->from, "leave out the steps before this one");
  add_option(command, "--smooth", options->smooth,
             "each point of training becomes the mean over so many steps around it (N/2 before and "
             "after, at the ends those that exist); what was recorded stays, pale");
  set_action(command, [options, &exit_code] {
    run_plot(*options);
    exit_code = 0;
  });
}

}  // namespace linea
