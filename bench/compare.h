// linea compare: trains every mechanism on the same tasks by the same trainer and writes what came
// of it. Runs are ordinary ones, in DIR/TASK/LABEL/seed-S.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/config.h"
#include "train/record/progress.h"

namespace linea::bench {

// What is compared, as DIR/compare.toml holds it. Lists are texts, divided by commas outside of
// braces.
struct CompareRequest {
  std::string preset, tasks, attentions = "all";
  std::string seeds = "1";  // seeds of every task, and of some: "1,copy=3"
  std::string data;         // a folder of data sets, or a file
  Settings given{};         // other settings, as texts, for every run
};
std::string to_toml(const CompareRequest& request);
// Errors: those of parse_toml; ErrorKind::input for a value that is no text.
CompareRequest request_from_toml(const std::string& text, const std::string& source);

// A task of a comparison: its settings, as TOML, and what it adds to them in a preset.
struct ComparedTask {
  std::string name, settings;
};
struct ComparePreset {
  std::string name, tasks, attentions;
  std::string settings;  // added to those of every task
};
// The lists of compare_presets.cpp: the tasks that the command names itself, and the presets.
const std::vector<ComparedTask>& compared_tasks();
const std::vector<ComparePreset>& compare_presets();
std::vector<std::string> compare_preset_names();

// One mechanism: an attention, or several that the layers take in turn.
struct Compared {
  std::string attention;  // normal form of the list
  std::string label;      // of its folder: characters other than [a-z0-9.=-] are '_'
};
// Softmax first, each label once. Errors: those of parse_attentions.
std::vector<Compared> compared_attentions(const std::string& list);
std::string folder_label(const std::string& attention);
// "a,b:pattern={c,d}" -> "a", "b:pattern={c,d}".
std::vector<std::string> split_list(const std::string& list);

struct CompareRun {
  std::string task;
  Compared mechanism;
  int64_t seed = 1;
  RunConfig config;
  std::string folder{};  // below DIR
  std::string state{};   // finished, failed, stopped, unfinished, excluded
  std::string reason{};  // of a run that failed or was excluded
  std::optional<double> loss{}, accuracy{}, score{};  // of the last validation; the score in %
  double seconds = 0, tokens_per_s = 0, peak_bytes = 0;
  int64_t parameters = -1, step = 0;
};

struct CompareRow {
  Compared mechanism;
  std::string growth;  // of the state: constant, or grows
};

// All that the files show.
struct Comparison {
  CompareRequest request;
  std::vector<std::string> tasks;
  std::vector<CompareRow> rows;
  std::vector<CompareRun> runs;
  int threads = 0;
};

struct MeanScore {
  double mean = 0, deviation = 0;  // over seeds; 0 of one
  int64_t seeds = 0;
};
std::optional<MeanScore> score_of(const Comparison& comparison, const std::string& task,
                                  const std::string& label);
// Softmax's mean over all tasks + the mean difference to softmax over the tasks that both have. The
// deviation is that of the mean.
std::optional<MeanScore> mean_score(const Comparison& comparison, const std::string& label);
// Parameters of the first run that has them; -1: none.
int64_t parameters_of(const Comparison& comparison, const std::string& label);

nlohmann::ordered_json json_of(const Comparison& comparison);
nlohmann::ordered_json json_of(const CompareRun& run);
std::string markdown_of(const Comparison& comparison);
// Writes compare.json and compare.md. Error: ErrorKind::write.
void write_comparison(const std::filesystem::path& folder, const Comparison& comparison);

// Runs what is not finished. The exit code: 0, 4 where a run failed, 75 where a signal stopped it.
// Errors: ErrorKind::usage for a request that cannot work, ErrorKind::input for data that is not
// there; both come before the first run.
int compare(const CompareRequest& request, const std::filesystem::path& folder, bool json,
            ProgressReporter& progress);

}  // namespace linea::bench
