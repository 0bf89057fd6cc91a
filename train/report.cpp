#include "train/report.h"

#include "data/files.h"
#include "train/curves.h"
#include "train/format.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

constexpr int kReloadSeconds = 10;
constexpr const char* kStyle =
    "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h1{margin-bottom:0}progress{width:100%}td{padding:0 1rem 0 0;vertical-align:top}"
    "img{image-rendering:pixelated;max-width:100%}svg{max-width:100%;height:auto}"
    "pre{white-space:pre-wrap;background:#f5f5f5;padding:1rem}";

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

// With its line breaks, which escape_xml() replaces.
std::string escape_lines(const std::string& text) {
  std::string result;
  for (size_t first = 0, end = 0; end != std::string::npos; first = end + 1) {
    end = text.find('\n', first);
    result += escape_xml(text.substr(first, end - first)) + "\n";
  }
  return result;
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
    rows += table_row("best validation", describe_validation(*line, shape));
  return rows.empty() ? "" : "<h2>Results</h2>\n<table>\n" + rows + "</table>\n";
}

std::string curves_html(const RunHistory& history, const std::string& name) {
  if (history.last("loss") == nullptr) return "";
  std::vector<Chart> charts;
  for (const char* metric : {"loss", "lr"})
    charts.push_back(metric_chart(metric, {history}, {name}));
  const std::string svg = charts_svg(charts);
  return "<h2>Curves</h2>\n" + svg.substr(svg.find("<svg"));  // without the XML declaration
}

std::string samples_html(const fs::path& run) {
  const std::vector<std::string> files = sample_files(run);
  if (files.empty()) return "";
  const fs::path path = files.back();
  const std::string title = "<h2>Samples: " + escape_xml(path.stem().string()) + "</h2>\n";
  const std::string bytes = read_file(path);
  if (path.extension() == ".png")
    return title + "<img alt=\"samples\" src=\"data:image/png;base64," + base64(bytes) + "\">\n";
  return title + "<pre>" + escape_lines(bytes) + "</pre>\n";
}

std::string settings_html(const RunConfig& config) {
  std::string rows;
  for (const AppliedSetting& applied : applied_settings(config))
    rows += table_row(applied.setting.key, to_string(applied.value), applied.setting.help);
  return "<h2>Settings</h2>\n<table>\n" + rows + "</table>\n";
}

}  // namespace

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = i; j < i + 3; ++j)
      group = group << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    for (size_t digit = 0; digit < 4; ++digit)
      text += i + digit <= bytes.size() ? kDigits[group >> (18 - 6 * digit) & 63] : '=';
  }
  return text;
}

void write_report(const fs::path& run, const RunConfig& config, const TaskShape& shape,
                  int64_t step, RunStatus status) {
  const RunHistory history = read_history(run);
  const std::string name = (run / "").parent_path().filename().string();
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  if (status == RunStatus::running)
    page += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", kReloadSeconds);
  page += fmt::format("<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
                      escape_xml(name), kStyle);
  page += fmt::format("<p>{} on {}: step {} of {}, {}; trained for {}; last record {}</p>\n",
                      escape_xml(label_of(attention_options(config))), escape_xml(config.task),
                      step, config.steps, name_of(status), format_duration(history.seconds()),
                      last_written(run));
  page += fmt::format("<progress max=\"{}\" value=\"{}\"></progress>\n", config.steps, step);
  page += results_html(history, shape) + curves_html(history, name) + samples_html(run) +
          settings_html(config) + "</body>\n</html>\n";
  write_file_atomically(run / "report.html", page);
}

}  // namespace linea
