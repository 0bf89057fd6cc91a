#include "train/record/run_history.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <sstream>

#include "base/error.h"
#include "data/files.h"
#include "data/safetensors.h"
#include "train/evaluate.h"
#include "train/format.h"
#include "train/run/checkpoint_files.h"
#include "train/run/early_stop.h"
#include "train/run/run_lock.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kConfigFile = "config.toml";

Validations validations_of(const RunHistory& history, Weights weights = Weights::last) {
  Validations result;
  for (const MetricsLine& line : history.lines) add_validation(line, result, weights);
  return result;
}

}  // namespace

const MetricsLine* RunHistory::last(const std::string& name) const {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (line->values.count(name) != 0) return &*line;
  return nullptr;
}

const MetricsLine* RunHistory::best_validation(Weights weights) const {
  const int64_t step = best_step(validations_of(*this, weights), [](int64_t) { return true; });
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (line->step == step && line->values.count("val_loss") != 0) return &*line;
  return nullptr;
}

std::vector<int64_t> RunHistory::uncompared() const {
  return uncompared_steps(validations_of(*this));
}

std::string RunHistory::uncompared_note() const {
  const std::vector<int64_t> steps = uncompared();
  if (steps.empty()) return "";
  return fmt::format("step{} {} {} not compared: measured over more tokens than the others",
                     steps.size() == 1 ? "" : "s", fmt::join(steps, ", "),
                     steps.size() == 1 ? "is" : "are");
}

const MetricsLine* RunHistory::whole_validation() const {
  const MetricsLine* line = last("whole_val_loss");
  const bool larger =
      line != nullptr && line->value("whole_val_tokens") > line->value("val_tokens");
  return larger ? line : nullptr;
}

int64_t RunHistory::step() const { return lines.empty() ? 0 : lines.back().step; }

double RunHistory::seconds() const {
  const MetricsLine* line = last("elapsed_s");
  return line == nullptr ? 0 : line->value("elapsed_s");
}

std::string describe_validation(const MetricsLine& line, const TaskShape& shape,
                                const std::string& prefix) {
  const bool has_bytes = line.values.count(prefix + "bits_per_byte") != 0;
  return fmt::format(
      "step {}: loss {:.4f}, {:.4f} {}, {}accuracy {:.4f} over {:.0f} tokens", line.step,
      line.value(prefix + "loss"), line.value(prefix + "bits"), bits_name(shape),
      has_bytes ? fmt::format("{:.4f} bits/byte, ", line.value(prefix + "bits_per_byte")) : "",
      line.value(prefix + "accuracy"), line.value(prefix + "tokens"));
}

std::string SkippedFolders::text() const {
  return fmt::format("{} could not be read ({}{})", plural(folders, "folder"),
                     folders == 1 ? "" : "the first is ", first);
}

std::vector<fs::path> find_runs(const fs::path& root, SkippedFolders& skipped) {
  std::vector<fs::path> runs, folders = {root};
  while (!folders.empty()) {
    const fs::path folder = folders.back();
    folders.pop_back();
    if (is_run(folder)) {
      runs.push_back(folder);
      continue;
    }
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      std::error_code ignored;  // of an entry that is gone by now
      if (entry->is_directory(ignored) && !entry->is_symlink(ignored))
        folders.push_back(entry->path());
    }
    if (!error || error == std::errc::no_such_file_or_directory) continue;
    if (skipped.folders++ == 0)
      skipped.first = fmt::format("{}: {}", folder.string(), error.message());
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kConfigFile, error) &&
         fs::is_directory(folder / "checkpoints", error);
}

RunHistory read_history(const fs::path& run) {
  RunHistory history{run, {}};
  std::error_code error;
  if (!fs::exists(run / kMetricsFile, error)) return history;
  std::istringstream text(read_file(run / kMetricsFile));
  for (std::string line; std::getline(text, line);)
    if (std::optional<MetricsLine> read = parse_metrics_line(line); read && !read->incident)
      history.lines.push_back(std::move(*read));
  return history;
}

RunConfig read_run_config(const fs::path& run) try {
  const std::string path = (run / kConfigFile).string();
  return config_from_toml(read_file(path), path);
} catch (const Error& error) {
  fail(ErrorKind::input, "{}", error.what());
}

std::string state_of(const RunHistory& history, const RunConfig& config) {
  if (RunLock::is_held(history.folder)) return "running";
  const std::vector<CheckpointFolder> checkpoints = list_checkpoints(history.folder);
  const int64_t saved = checkpoints.empty() ? -1 : checkpoints.back().step;
  if (saved < history.step()) return "died";
  const Validations validations = validations_of(history);
  // The last step is validated: a signal can come between.
  const bool finished = saved > config.steps ||
                        (saved == config.steps && validations.count(saved) != 0) ||
                        stops_early(validations, config.early_stop);
  return finished ? "finished" : "stopped";
}

// The optimizer has one moment "mean.NAME" or "momentum.NAME" for each parameter and none for
// buffers.
int64_t count_saved_parameters(const fs::path& run) {
  const std::vector<CheckpointFolder> checkpoints = list_checkpoints(run);
  if (checkpoints.empty()) return -1;
  const SafetensorsFile file = SafetensorsFile::open(checkpoints.back().path / kOptimizerFile);
  int64_t count = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with("mean.") && !entry.name.starts_with("momentum.")) continue;
    int64_t elements = 1;
    for (const int64_t size : entry.shape) elements *= size;
    count += elements;
  }
  return count;
}

std::string last_written(const fs::path& run) {
  struct stat facts {};
  if (stat((run / kMetricsFile).c_str(), &facts) != 0) return "";
  std::tm local{};
  localtime_r(&facts.st_mtime, &local);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return {text, length};
}

std::vector<std::string> sample_files(const fs::path& run) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "samples", error))
    if (entry.path().filename().string().rfind("step-", 0) == 0)
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

fs::path best_checkpoint(const fs::path& run, Weights weights) {
  if (!is_run(run))
    fail(ErrorKind::usage, "{} is not the folder of a run, whose checkpoints `best` chooses from",
         run.string());
  std::set<int64_t> saved;
  const std::vector<CheckpointFolder> checkpoints = list_checkpoints(run);
  for (const CheckpointFolder& checkpoint : checkpoints) saved.insert(checkpoint.step);
  const RunHistory history = read_history(run);
  if (const std::string note = history.uncompared_note(); !note.empty())
    fmt::print(stderr, "linea: {}: {}\n", run.string(), note);
  const int64_t best = best_step(validations_of(history, weights),
                                 [&](int64_t step) { return saved.count(step) != 0; });
  for (const CheckpointFolder& checkpoint : checkpoints)
    if (checkpoint.step == best) return checkpoint.path;
  fail(ErrorKind::usage,
       "{} has no checkpoint of a step where {} weights were validated; train with {}`eval_every`, "
       "or leave out `best`",
       run.string(), weights == Weights::last ? "its" : "averaged",
       weights == Weights::last ? "" : "`ema` and ");
}

}  // namespace linea
