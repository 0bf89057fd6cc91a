// linea runs: a table of the runs below a folder, and in which settings two runs differ.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/settings_json.h"
#include "cli/terminal.h"
#include "data/json.h"
#include "train/format.h"
#include "train/record/run_history.h"
#include "train/record/table.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct RunsOptions {
  std::string folder, sort = "run";
  std::vector<std::string> diff;
  bool json = false;
};

// null for what a run has not recorded, and for a number that was not finite.
Json last_value(const RunHistory& history, const std::string& name) {
  const MetricsLine* line = history.last(name);
  if (line == nullptr || !std::isfinite(line->value(name))) return nullptr;
  return line->value(name);
}

struct Run {
  std::string name;  // its path below the folder
  RunConfig config;
  RunHistory history;
  std::string state, date;
  int64_t parameters = -1;  // -1: not known yet
};

Run read_run(const fs::path& folder, const std::string& name) {
  Run run{name, read_run_config(folder), read_history(folder),
          "",   last_written(folder),    count_saved_parameters(folder)};
  run.state = state_of(run.history, run.config);
  return run;
}

// A run as --json prints it; its keys are those of --sort.
Json row_of(const Run& run) {
  const MetricsLine* best = run.history.best_validation();
  return {{"run", run.name},
          {"state", run.state},
          {"task", run.config.task},
          {"step", run.history.step()},
          {"steps", run.config.steps},
          {"elapsed_s", run.history.seconds()},
          {"val_loss", last_value(run.history, "val_loss")},
          {"val_bits", last_value(run.history, "val_bits")},
          {"best_val_loss", best == nullptr ? Json() : Json(best->value("val_loss"))},
          {"best_step", best == nullptr ? -1 : best->step},
          {"uncompared_steps", run.history.uncompared()},
          {"whole_val_loss", last_value(run.history, "whole_val_loss")},
          {"lr", run.config.lr},
          {"batch", run.config.batch},
          {"accumulate", run.config.accumulate},
          {"tokens_per_s", last_value(run.history, "tokens_per_s")},
          {"parameters", run.parameters},
          {"attention", label_of(attention_options(run.config))},
          {"date", run.date}};
}

std::vector<std::string> sort_keys() {
  std::vector<std::string> keys;
  const Json row = row_of({});
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  return keys;
}

// Names and losses from the lowest, all else from the highest; null last.
bool comes_before(const Json& a, const Json& b, const std::string& key) {
  const Json &x = a[key], &y = b[key];
  if (x.is_null() || y.is_null()) return !x.is_null();
  const bool lowest_first = key != "date" && (x.is_string() || key.find("val_") != key.npos);
  return lowest_first ? x < y : y < x;
}

std::string number_cell(const Json& value, const char* format) {
  return value.is_null() ? "-" : fmt::format(fmt::runtime(format), value.get<double>());
}

std::string count_cell(const Json& value) {
  return value.is_null() || value < 0 ? "-" : format_count(value.get<double>());
}

struct Column {
  TableColumn column;
  std::string (*cell)(const Json& row);
};
const Column kTable[] = {
    {{"run"}, [](const Json& row) { return printable(row["run"]); }},
    {{"state"}, [](const Json& row) { return row["state"].get<std::string>(); }},
    {{"task"}, [](const Json& row) { return row["task"].get<std::string>(); }},
    {{"step", true},
     [](const Json& row) {
       return row["step"] == row["steps"] ? row["step"].dump()
                                          : row["step"].dump() + "/" + row["steps"].dump();
     }},
    {{"time", true}, [](const Json& row) { return format_duration(row["elapsed_s"]); }},
    {{"val loss", true}, [](const Json& row) { return number_cell(row["val_loss"], "{:.4f}"); }},
    {{"bits", true}, [](const Json& row) { return number_cell(row["val_bits"], "{:.4f}"); }},
    {{"rate", true}, [](const Json& row) { return number_cell(row["lr"], "{:g}"); }},
    {{"batch", true},
     [](const Json& row) {
       return row["accumulate"] == 1 ? row["batch"].dump()
                                     : row["batch"].dump() + "x" + row["accumulate"].dump();
     }},
    {{"tokens/s", true}, [](const Json& row) { return count_cell(row["tokens_per_s"]); }},
    {{"params", true}, [](const Json& row) { return count_cell(row["parameters"]); }},
    {{"date"},
     [](const Json& row) {
       const std::string date = row["date"];
       return date.empty() ? "-" : date.substr(5, 11);  // month to minute
     }},
    {{"attention"}, [](const Json& row) { return row["attention"].get<std::string>(); }}};

void print_rows(const std::vector<Json>& rows) {
  std::vector<TableColumn> columns;
  std::vector<std::vector<std::string>> cells(rows.size());
  for (const Column& column : kTable) {
    columns.push_back(column.column);
    for (size_t i = 0; i < rows.size(); ++i) cells[i].push_back(column.cell(rows[i]));
  }
  print_table(columns, cells);
}

void list_runs(const RunsOptions& options) {
  const std::vector<std::string> keys = sort_keys();
  require(std::find(keys.begin(), keys.end(), options.sort) != keys.end(),
          "--sort is '{}'; choose one of {}", options.sort, fmt::join(keys, ", "));
  std::error_code reason;
  if (const fs::directory_iterator readable(options.folder, reason); reason)
    fail(ErrorKind::input, "{}: {}", options.folder, reason.message());
  SkippedFolders skipped;
  const std::vector<fs::path> runs = find_runs(options.folder, skipped);
  if (runs.empty())
    fail(ErrorKind::input, "there is no run in {}{}; linea train --out RUN makes one",
         options.folder, skipped.folders == 0 ? "" : ", where " + skipped.text());
  if (skipped.folders > 0) fmt::print(stderr, "linea: {}\n", printable(skipped.text()));
  std::vector<Json> rows;
  for (const fs::path& run : runs) {
    const std::string name = run.lexically_relative(options.folder).string();
    try {
      rows.push_back(row_of(read_run(run, name == "." ? options.folder : name)));
    } catch (const Error& error) {
      fmt::print(stderr, "linea: {}; the run is left out\n", printable(error.what()));
    }
  }
  std::sort(rows.begin(), rows.end(),
            [](const Json& a, const Json& b) { return a["run"] < b["run"]; });
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json& a, const Json& b) { return comes_before(a, b, options.sort); });
  if (!options.json) return print_rows(rows);
  for (const Json& row : rows) print_json_line(row);
}

// The settings of a run that apply, by key, as JSON.
Json settings_of(const std::string& run) {
  if (!is_run(run))
    fail(ErrorKind::input, "{} is not the folder of a run, whose settings could be compared", run);
  return settings_json(read_run_config(run));
}

// A setting in a table; "-": it does not apply.
std::string setting_cell(const Json& value) {
  if (value.is_null()) return "-";
  return printable(value.is_string() ? value.get<std::string>() : value.dump());
}

// The settings in which two runs differ, in the order of the declarations; those of B alone last.
void show_difference(const RunsOptions& options) {
  require(options.diff.size() == 2, "--diff compares two runs, not {}", options.diff.size());
  const Json a = settings_of(options.diff[0]), b = settings_of(options.diff[1]);
  std::vector<Json> differences;
  for (const auto& [key, value] : a.items())
    if (const Json other = b.value(key, Json()); other != value)
      differences.push_back({{"setting", key}, {"a", value}, {"b", other}});
  for (const auto& [key, value] : b.items())
    if (!a.contains(key)) differences.push_back({{"setting", key}, {"a", nullptr}, {"b", value}});
  if (options.json) {
    for (const Json& difference : differences) print_json_line(difference);
    return;
  }
  if (differences.empty()) return print_wrapped("the settings are equal", 0);
  std::vector<std::vector<std::string>> cells;
  for (const Json& difference : differences)
    cells.push_back(
        {difference["setting"], setting_cell(difference["a"]), setting_cell(difference["b"])});
  print_table({{"setting"}, {printable(options.diff[0])}, {printable(options.diff[1])}}, cells);
}

}  // namespace

void add_runs(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(
      program, "runs", "a table of the runs in a folder, or the settings in which two runs differ",
      "Example:  linea runs runs --sort val_loss\n\nA run is running, finished, stopped (it can be "
      "resumed without loss), or died: the steps after its newest checkpoint are lost. Time is "
      "that "
      "of training; bits, validation loss and tokens per second are the last in metrics.jsonl; "
      "rate is the learning rate at its peak, batch in a step x --accumulate; the date is that of "
      "the last line.\nNames and losses are sorted from the lowest, all else from the highest.");
  const auto options = std::make_shared<RunsOptions>();
  add_option(command, "FOLDER", options->folder, "the folder; runs may be in folders below it");
  add_option(command, "--sort", options->sort, "the column to sort by", OptionKind::shows_default);
  set_choices(command, "--sort", sort_keys());
  add_option(command, "--diff", options->diff, "two runs: the settings in which they differ");
  exclude_each_other(command, "--diff", "FOLDER");
  exclude_each_other(command, "--diff", "--sort");
  add_flag(command, "--json", options->json, "one JSON object per line");
  set_action(command, [options, &exit_code] {
    require(!options->folder.empty() || !options->diff.empty(),
            "FOLDER is required; see linea runs --help");
    options->diff.empty() ? list_runs(*options) : show_difference(*options);
    exit_code = 0;
  });
}

}  // namespace linea
