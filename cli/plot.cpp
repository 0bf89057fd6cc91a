// linea plot: curves of runs over steps or time, as an SVG.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/flags.h"
#include "train/record/curves.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

struct PlotOptions {
  std::vector<std::string> runs, metrics = {"loss", "bits", "lr"};
  std::string svg, over = "steps";
  int64_t from = 0, smooth = 0;
  bool log = false;
};

// The last parts of the paths, or the whole paths where two end alike.
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
  check_from(options.from, runs);
  const CurveOptions curves{options.over == "time", options.log, options.from, options.smooth};
  std::vector<Chart> charts;
  for (const std::string& metric : options.metrics)
    charts.push_back(metric_chart(metric, runs, short_names(options.runs), curves));
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
  add_option(command, "RUN", options->runs, "one run or more", OptionKind::required);
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
