// linea runs: a table of the runs below a folder.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "data/json.h"
#include "train/format.h"
#include "train/run_history.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

struct RunsOptions {
  std::string folder, sort = "run";
  bool json = false;
};

struct Row {
  std::string run;  // its path below the folder
  int64_t step = 0, steps = 0;
  double val_loss = NAN, best_val_loss = NAN, whole_val_loss = NAN, tokens_per_s = NAN;
  std::vector<int64_t> uncompared;
  int64_t best_step = -1, parameters = -1;  // -1: none yet
  std::string attention, date;
};

Row read_row(const fs::path& run, const std::string& name) {
  const RunConfig config = read_run_config(run);
  const RunHistory history = read_history(run);
  Row row;
  row.run = name;
  row.step = history.step();
  row.steps = config.steps;
  if (const MetricsLine* line = history.last("val_loss")) row.val_loss = line->value("val_loss");
  if (const MetricsLine* best = history.best_validation()) {
    row.best_val_loss = best->value("val_loss");
    row.best_step = best->step;
  }
  if (const MetricsLine* line = history.last("whole_val_loss"))
    row.whole_val_loss = line->value("whole_val_loss");
  row.uncompared = history.uncompared();
  if (const MetricsLine* line = history.last("tokens_per_s"))
    row.tokens_per_s = line->value("tokens_per_s");
  row.parameters = count_saved_parameters(run);
  row.attention = label_of(attention_options(config));
  row.date = last_written(run);
  return row;
}

// The runs in a folder and below; a run holds no other. Links to folders are not followed.
std::vector<fs::path> find_runs(const fs::path& folder) {
  if (is_run(folder)) return {folder};
  std::vector<fs::path> runs;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  if (error) fail(ErrorKind::input, "{}: {}", folder.string(), error.message());
  for (; entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (error) fail(ErrorKind::input, "{}: {}", folder.string(), error.message());
    if (!is_run(entry->path())) continue;
    runs.push_back(entry->path());
    entry.disable_recursion_pending();
  }
  if (runs.empty())
    fail(ErrorKind::input, "there is no run in {}; linea train --out RUN makes one",
         folder.string());
  return runs;
}

// By key: names and losses from the lowest, all else from the highest; what a run has not, last.
using Before = bool (*)(const Row&, const Row&);
const std::vector<std::pair<std::string, Before>>& orders() {
  static const std::vector<std::pair<std::string, Before>> result = {
      {"run", [](const Row& a, const Row& b) { return a.run < b.run; }},
      {"step", [](const Row& a, const Row& b) { return a.step > b.step; }},
      {"val_loss",
       [](const Row& a, const Row& b) {
         return a.val_loss < b.val_loss || (std::isnan(b.val_loss) && !std::isnan(a.val_loss));
       }},
      {"attention", [](const Row& a, const Row& b) { return a.attention < b.attention; }},
      {"parameters", [](const Row& a, const Row& b) { return a.parameters > b.parameters; }},
      {"tokens_per_s",
       [](const Row& a, const Row& b) {
         return a.tokens_per_s > b.tokens_per_s ||
                (std::isnan(b.tokens_per_s) && !std::isnan(a.tokens_per_s));
       }},
      {"date", [](const Row& a, const Row& b) { return a.date > b.date; }}};
  return result;
}

std::vector<std::string> sort_keys() {
  std::vector<std::string> keys;
  for (const auto& [key, before] : orders()) keys.push_back(key);
  return keys;
}

void print_json(const Row& row) {
  print_json_line({{"run", row.run},
                   {"step", row.step},
                   {"steps", row.steps},
                   {"val_loss", row.val_loss},
                   {"best_val_loss", row.best_val_loss},
                   {"best_step", row.best_step},
                   {"uncompared_steps", row.uncompared},
                   {"whole_val_loss", row.whole_val_loss},
                   {"attention", row.attention},
                   {"parameters", row.parameters},
                   {"tokens_per_s", row.tokens_per_s},
                   {"date", row.date}});
}

std::string cell(double value, const std::string& text) {
  return std::isnan(value) || value < 0 ? "-" : text;
}

// Columns as wide as their widest cell; numbers to the right.
void print_table(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines = {
      {"run", "step", "val loss", "attention", "params", "tokens/s", "date"}};
  for (const Row& row : rows)
    lines.push_back({printable(row.run),
                     row.step == row.steps ? fmt::format("{}", row.step)
                                           : fmt::format("{}/{}", row.step, row.steps),
                     cell(row.val_loss, fmt::format("{:.4f}", row.val_loss)), row.attention,
                     cell(static_cast<double>(row.parameters),
                          format_count(static_cast<double>(row.parameters))),
                     cell(row.tokens_per_s, format_count(row.tokens_per_s)),
                     row.date.empty() ? "-" : row.date.substr(5, 11)});  // month to minute
  std::vector<size_t> widths(lines[0].size());
  for (const std::vector<std::string>& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const std::vector<std::string>& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const bool is_text = i == 0 || i == 3 || i == 6;
      text += is_text ? fmt::format("{:<{}}  ", line[i], widths[i])
                      : fmt::format("{:>{}}  ", line[i], widths[i]);
    }
    std::printf("%s\n", text.substr(0, text.find_last_not_of(' ') + 1).c_str());
  }
}

void run_runs(const RunsOptions& options) {
  const auto order = std::find_if(orders().begin(), orders().end(),
                                  [&](const auto& one) { return one.first == options.sort; });
  require(order != orders().end(), "--sort is '{}'; choose one of {}", options.sort,
          fmt::join(sort_keys(), ", "));
  std::vector<Row> rows;
  for (const fs::path& run : find_runs(options.folder)) {
    const std::string name = run.lexically_relative(options.folder).string();
    try {
      rows.push_back(read_row(run, name == "." ? options.folder : name));
    } catch (const Error& error) {
      fmt::print(stderr, "linea: {}; the run is left out\n", printable(error.what()));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.run < b.run; });
  std::stable_sort(rows.begin(), rows.end(), order->second);
  if (!options.json) return print_table(rows);
  for (const Row& row : rows) print_json(row);
}

}  // namespace

void add_runs(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(
      program, "runs", "a table of the runs in a folder",
      "Example:  linea runs runs --sort val_loss\n\nStep, validation loss and tokens per second "
      "are "
      "the last in metrics.jsonl, the date is that "
      "of its last line.\nNames and losses are sorted from the lowest, all else from the "
      "highest.");
  const auto options = std::make_shared<RunsOptions>();
  add_option(command, "FOLDER", options->folder, "the folder; runs may be in folders below it",
             OptionKind::required);
  add_option(command, "--sort", options->sort, "the column to sort by", OptionKind::shows_default);
  set_choices(command, "--sort", sort_keys());
  add_flag(command, "--json", options->json, "one JSON object per line");
  set_action(command, [options, &exit_code] {
    run_runs(*options);
    exit_code = 0;
  });
}

}  // namespace linea
