// linea compare: trains every mechanism on the same tasks by the same trainer, measures its training
// step, and writes what came of it. Runs are ordinary ones, in DIR/TASK/LABEL/seed-S.
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
  std::string seeds = "1";            // seeds of every task, and of some: "1,copy=3"
  std::string lengths = "1024,4096";  // where time and memory are measured
  std::string references = "lra";     // published results in the image, or none
  std::string data;                   // a folder of data sets, or a file
  Settings given{};                   // other settings, as texts, for every run
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
  std::string sizes;     // in place of defaults of attentions that are not 0, as TOML
};
// The lists of compare_presets.cpp: the tasks that the command names itself, and the presets.
const std::vector<ComparedTask>& compared_tasks();
const std::vector<ComparePreset>& compare_presets();
std::vector<std::string> compare_preset_names();
// Null for an empty name. Error: ErrorKind::usage, an unknown one.
const ComparePreset* find_compare_preset(const std::string& name);

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
// "1,copy=3" -> the seeds of the task. Error: ErrorKind::usage.
int64_t seeds_of(const std::string& list, const std::string& task);
std::vector<int64_t> lengths_of(const std::string& list);
// The settings of a run. Errors: ErrorKind::usage.
RunConfig run_config(const CompareRequest& request, const std::string& task,
                     const std::string& attention, int64_t seed);

// Why a mechanism and a task do not go together: "needs 2 layers", "needs an image", "no causal
// form"; "": they do, or training says what is wrong.
std::string exclusion(const RunConfig& config, const TaskShape& shape);

struct CompareRun {
  std::string task;
  Compared mechanism;
  int64_t seed = 1;
  RunConfig config;
  std::string folder{};  // below DIR
  std::string state{};   // finished, failed, stopped, unfinished, excluded
  std::string reason{};  // of a run that failed or was excluded
  // From the whole validation split where it was measured, else the last validation; score in %.
  std::optional<double> loss{}, accuracy{}, majority{}, answers{}, score{};
  double seconds = 0, tokens_per_s = 0, peak_bytes = 0;
  int64_t parameters = -1, step = 0;
  // Whether the accuracy is within two standard errors of the majority, or below.
  bool at_majority() const;
};

// A training step on one-answer sequences of bytes, about kStepTokens tokens together.
constexpr int64_t kStepTokens = 16384, kSteps = 5;  // measured, after one
struct StepCost {
  int64_t length = 0;
  bool causal = false;
  double seconds = 0, peak_bytes = 0;  // the median; of tensors, the model included
};
struct MechanismCost {
  std::vector<StepCost> steps;  // by length
  std::string state{};          // measured, failed, excluded, stopped; empty: not yet
  std::string reason{};
  const StepCost* at(int64_t length) const;  // null where it is missing
};
// What DIR/speed/LABEL.json has of all lengths, else measured and written there. Without steps where a
// signal stopped it. Error: ErrorKind::write.
MechanismCost cost_of(const std::filesystem::path& folder, const CompareRequest& request,
                      const Compared& mechanism, ProgressReporter& progress);

struct CompareRow {
  Compared mechanism;
  std::string growth;       // of the state: constant, grows, or "-": no causal form
  int family = 0;           // index into compare_families()
  bool reads_much = false;  // a restricted mechanism, more than a quarter of the shortest task
  MechanismCost cost{};
};
const std::vector<std::string>& compare_families();
int family_of(const std::string& attention);
std::string growth_of(const std::string& attention);
// Keys, or slots, that a query of a restricted mechanism reads, the mean over a causal sequence; 0:
// it is not restricted. `config`: of a model with it, of `length` positions.
double keys_read(const ModelConfig& config, int64_t length);

// All that the files show.
struct Comparison {
  CompareRequest request;
  std::string version;
  std::vector<std::string> tasks;
  std::vector<int64_t> lengths;
  std::vector<CompareRow> rows;
  std::vector<CompareRun> runs;
  int threads = 0;
  bool running = true;
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
// The speed and the memory of a mechanism / those of softmax.
struct RelativeCost {
  double speed = 0, memory = 0;
  bool causal = false;
};
std::optional<RelativeCost> relative_cost(const Comparison& comparison, const CompareRow& row,
                                          int64_t length);

nlohmann::ordered_json json_of(const Comparison& comparison);
nlohmann::ordered_json json_of(const CompareRun& run);
std::string markdown_of(const Comparison& comparison);
// Speed, score and memory of each mechanism in one image, in which a circle is one.
std::string compare_svg(const Comparison& comparison);
// With the image and the curves of the runs in `folder`.
std::string report_of(const Comparison& comparison, const std::filesystem::path& folder);
// Finished runs whose folders are gone, from the compare.json of an earlier call, where their settings are
// the same.
void read_deleted_runs(const std::filesystem::path& folder, Comparison& comparison);
// Writes compare.json, compare.md and compare.svg, and report.html. Error: ErrorKind::write.
void write_comparison(const std::filesystem::path& folder, const Comparison& comparison);

// Runs what is not finished. The exit code: 0, 4 where a run failed, 75 where a signal stopped it.
// Errors: ErrorKind::usage for a request that cannot work, or that differs from what runs in the folder
// were trained with; ErrorKind::input for data that is not there; all come before the first run.
int compare(const CompareRequest& request, const std::filesystem::path& folder, bool json,
            const std::string& version, ProgressReporter& progress);

}  // namespace linea::bench
