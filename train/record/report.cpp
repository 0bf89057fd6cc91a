#include "train/record/report.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "data/files.h"
#include "data/page.h"
#include "train/commands.h"
#include "train/format.h"
#include "train/record/curves.h"
#include "train/record/report_page.h"
#include "train/timing.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEarlierSamples = 6, kEarlierText = 300;  // sheets or texts; bytes of a text
constexpr uintmax_t kEarlierBytes = 1 << 20;               // of all earlier samples
constexpr int64_t kRecordedSteps = 10;                     // between records
constexpr size_t kCommands = 5;                            // the newest
constexpr int64_t kLaterSteps = 3;  // the second chart of the loss leaves out a third of the steps
constexpr double kPatience = 120;   // seconds; a page that is older than this may be out of date

const char* word_of(RunStatus status) {
  constexpr const char* kWords[] = {"running", "finished", "stopped", "failed"};
  return kWords[static_cast<size_t>(status)];
}

const char* name_of(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return "running";
    case RunStatus::finished:
      return "finished";
    case RunStatus::stopped:
      return "stopped; it can be resumed";
    case RunStatus::failed:
      return "failed";
  }
  return "unknown";
}

std::string table_row(const std::string& name, const std::string& value,
                      const std::string& help = "") {
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", escape_xml(name),
                     escape_xml(value), escape_xml(help));
}

std::string results_html(const RunHistory& history, const TaskShape& shape) {
  std::string rows;
  if (const MetricsLine* line = history.last("loss"))
    rows += table_row("training",
                      fmt::format("step {}: loss {:.4f}, {} tokens/s", line->step,
                                  line->value("loss"), format_count(line->value("tokens_per_s"))));
  if (const MetricsLine* line = history.last("val_loss"))
    rows += table_row("last validation", describe_validation(*line, shape));
  if (const MetricsLine* line = history.best_validation())
    rows +=
        table_row("best validation", describe_validation(*line, shape), history.uncompared_note());
  if (const MetricsLine* line = history.best_validation(Weights::average))
    rows += table_row("best of the averaged weights",
                      fmt::format("step {}: loss {:.4f}", line->step, line->value("val_loss_ema")));
  if (const MetricsLine* line = history.whole_validation())
    rows +=
        table_row("the whole validation split", describe_validation(*line, shape, "whole_val_"));
  return rows.empty() ? "" : "<h2>Results</h2>\n<table>\n" + rows + "</table>\n";
}

// The loss over all steps and over the later ones, where it falls slowly; a curve alone in its
// chart needs no legend.
std::string curves_html(const RunHistory& history, const std::string& name) {
  if (history.last("loss") == nullptr) return "";
  const auto chart = [&](const char* metric, bool logarithmic, int64_t from) {
    Chart result =
        metric_chart(metric, {history}, {name}, {.logarithmic = logarithmic, .from = from});
    if (result.series.size() == 1) result.series[0].name = result.series[0].part = "";
    return result;
  };
  std::vector<Chart> charts = {chart("loss", true, 0)};
  const int64_t from = history.step() / kLaterSteps;
  if (from >= 2 * kRecordedSteps) {
    charts.push_back(chart("loss", false, from));
    charts.back().title += fmt::format(" from step {}", from);
  }
  charts.push_back(chart("grad_norm", true, 0));
  charts.push_back(chart("lr", false, 0));
  std::string html = "<h2>Curves</h2>\n<div class=\"charts\">\n";
  for (const Chart& one : charts) html += chart_element(one);
  return html + "</div>\n";
}

// "step-00000020" as 20.
std::string step_of(const fs::path& sample) {
  const std::string name = sample.stem().string();
  const size_t digits = name.find_first_not_of('0', name.find('-') + 1);
  return digits == std::string::npos ? "0" : name.substr(digits);
}

std::string sample_html(const fs::path& path, size_t max_text) {
  const std::string bytes = read_file(path), step = step_of(path);
  std::string body;
  if (path.extension() == ".png") {
    body = fmt::format("<figure><img alt=\"{}\" src=\"data:image/png;base64,{}\">\n",
                       escape_xml(path.stem().string()), base64(bytes));
  } else {
    size_t end = std::min(bytes.size(), max_text);
    while (end > 0 && end < bytes.size() && (static_cast<unsigned char>(bytes[end]) & 0xC0) == 0x80)
      --end;  // not within a character
    body = "<figure class=\"text\"><pre>" +
           escape_lines(bytes.substr(0, end) + (end < bytes.size() ? "\u2026" : "")) + "</pre>\n";
  }
  return body + "<figcaption>step " + escape_xml(step) + "</figcaption></figure>\n";
}

// Evenly spaced ones of those before the last, the first included.
std::string earlier_samples_html(const std::vector<std::string>& files) {
  const size_t earlier = files.size() - 1, shown = std::min(earlier, kEarlierSamples);
  std::string html;
  uintmax_t bytes = 0;
  for (size_t i = 0; i < shown; ++i) {
    const fs::path path = files[i * earlier / shown];
    bytes += fs::file_size(path);
    if (bytes <= kEarlierBytes) html += sample_html(path, kEarlierText);
  }
  return html.empty() ? "" : "<div class=\"samples earlier\">\n" + html + "</div>\n";
}

std::string samples_html(const fs::path& run) {
  const std::vector<std::string> files = sample_files(run);
  if (files.empty()) return "";
  return "<h2>Samples</h2>\n<div class=\"samples\">\n" +
         sample_html(files.back(), std::string::npos) + "</div>\n" + earlier_samples_html(files);
}

std::string commands_html(const fs::path& run) {
  const std::vector<std::string> commands = recorded_commands(run);
  if (commands.empty()) return "";
  std::string html = commands.size() == 1 ? "<h2>Command</h2>\n" : "<h2>Commands</h2>\n";
  if (commands.size() > kCommands)
    html += fmt::format("<p class=\"mute\">the last {} of {}</p>\n", kCommands, commands.size());
  for (size_t i = commands.size() - std::min(commands.size(), kCommands); i < commands.size(); ++i)
    html += "<code class=\"command\">" + escape_xml(commands[i]) + "</code>\n";
  return html;
}

std::string settings_html(const RunConfig& config) {
  std::string rows;
  for (const AppliedSetting& applied : applied_settings(config))
    rows += table_row(applied.setting.key, to_string(applied.value), applied.setting.help);
  return "<details>\n<summary>Settings</summary>\n<table>\n" + rows + "</table>\n</details>\n";
}

// By the pace of the second half of the steps so far, validations and samples included; NaN where
// too few are recorded.
double seconds_left(const RunHistory& history, int64_t step, int64_t steps) {
  const MetricsLine* last = history.last("elapsed_s");
  if (last == nullptr) return std::nan("");
  for (const MetricsLine& line : history.lines) {
    if (line.step < last->step / 2 || line.values.count("elapsed_s") == 0) continue;
    const double done = static_cast<double>(last->step - line.step);
    if (done < kRecordedSteps) break;
    const double seconds = last->value("elapsed_s") - line.value("elapsed_s");
    return seconds / done * static_cast<double>(steps - step);
  }
  return std::nan("");
}

// Three times the longest time between two records.
double patience(const RunHistory& history) {
  double longest = kPatience / 3, before = std::nan("");
  int64_t records = 0;
  for (const MetricsLine& line : history.lines) {
    const double now = line.value("elapsed_s");
    if (!std::isfinite(now)) continue;
    if (++records > 1) longest = std::max(longest, now - before);
    before = now;
  }
  return records > 1 ? 3 * longest : 10 * kPatience;  // a first step may take long
}

// The page's head: its title and the state of the run.
std::string head_html(const std::string& name, RunStatus status) {
  const std::string reload =
      status != RunStatus::running
          ? ""
          : fmt::format("<noscript><meta http-equiv=\"refresh\" content=\"{}\"></noscript>\n",
                        kReloadSeconds);
  return page_start(name, report_style() + chart_style(), reload) +
         fmt::format("<h1>{0} <span id=\"badge\" class=\"{1}\">{1}</span></h1>\n", escape_xml(name),
                     word_of(status));
}

std::string progress_html(const RunHistory& history, const RunConfig& config, int64_t step,
                          RunStatus status, double patience_seconds) {
  const double left = seconds_left(history, step, config.steps);
  std::string html = fmt::format(
      "<p id=\"state\" data-written=\"{}\" data-patience=\"{:.0f}\">{} on {}: step {} of {}, {}; "
      "trained for {}{}; last record {}</p>\n",
      std::time(nullptr), patience_seconds, escape_xml(label_of(attention_options(config))),
      escape_xml(config.task), step, config.steps, name_of(status),
      format_duration(history.seconds()),
      status == RunStatus::running && std::isfinite(left)
          ? fmt::format(", about {} left", format_duration(left))
          : "",
      last_written(history.folder));
  if (status == RunStatus::running)
    html += fmt::format(
        "<p id=\"stale\" class=\"stale\" hidden>The program that trains this run has not written "
        "this page for longer than usual: it has ended or waits. <code>linea train --resume "
        "{}</code> continues the run.</p>\n",
        escape_xml(shell_quote(history.folder.string())));
  return html + fmt::format("<progress max=\"{}\" value=\"{}\"></progress>\n", config.steps, step);
}

}  // namespace

void write_report(const fs::path& run, const RunConfig& config, const TaskShape& shape,
                  int64_t step, RunStatus status) {
  const Stopwatch watch;
  const RunHistory history = read_history(run);
  const std::string name = (run / "").parent_path().filename().string();
  const std::string body = results_html(history, shape) + curves_html(history, name) +
                           samples_html(run) + commands_html(run) + settings_html(config);
  // The next page comes after 100 times as long as it takes to write one.
  const double patience_seconds = std::max(patience(history), 300 * watch.seconds());
  std::string page = head_html(name, status) +
                     progress_html(history, config, step, status, patience_seconds) + body +
                     "<script>" + chart_script();
  if (status == RunStatus::running) page += report_script();
  write_file_atomically(run / "report.html", page + "</script>\n</body>\n</html>\n");
}

}  // namespace linea
