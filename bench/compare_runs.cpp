// The runs of a comparison: each is one of the trainer's, in a folder of its own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/compare.h"
#include "data/files.h"
#include "data/json.h"
#include "nn/model.h"
#include "tensor/context.h"
#include "train/format.h"
#include "train/record/run_history.h"
#include "train/run/run_lock.h"
#include "train/run/signals.h"
#include "train/run/step_memory.h"
#include "train/run/trainer.h"

namespace linea::bench {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

// 100 (U - loss) / U with U = ln vocabulary for what has no right answer, else the accuracy in %.
double score_of(const RunConfig& config, const TaskShape& shape, double loss, double accuracy) {
  const bool language =
      shape.answer_tokens == 0 && (shape.side > 0 || find_task(config.task).has_vocabulary);
  const double uniform = std::log(static_cast<double>(shape.vocab_size));
  return language ? 100 * (uniform - loss) / uniform : 100 * accuracy;
}

class Comparer {
 public:
  Comparer(const CompareRequest& request, const fs::path& folder, bool json,
           const std::string& version, ProgressReporter& progress)
      : folder_(folder), json_(json), progress_(progress) {
    all_.request = request;
    all_.version = version;
    if (const ComparePreset* preset = find_compare_preset(request.preset)) fill(*preset);
    require(request.references == "lra" || request.references == "none",
            "`references` is '{}'; choose lra or none", request.references);
    all_.lengths = lengths_of(request.lengths);
    require(!all_.request.tasks.empty(), "say on what to compare: `tasks`, or a `preset`: {}",
            fmt::join(compare_preset_names(), ", "));
    all_.tasks = split_list(all_.request.tasks);
    for (const Compared& mechanism : compared_attentions(all_.request.attentions))
      all_.rows.push_back(
          {mechanism, growth_of(mechanism.attention), family_of(mechanism.attention)});
    for (const std::string& task : all_.tasks) add_runs(task);
  }

  int run() {
    watch_signals();
    std::map<std::string, std::unique_ptr<Task>> tasks;
    for (const CompareRun& run : all_.runs)
      if (tasks.count(run.task) == 0) open_task(run, tasks);
    for (CompareRun& run : all_.runs) {
      read(run);
      refuse_other_settings(run);
    }
    read_deleted_runs(folder_, all_);
    make_folders(folder_);
    const RunLock lock(folder_);
    write_file_atomically(folder_ / "compare.toml", to_toml(all_.request));
    mark_wide_rows();
    CompareRow& softmax = all_.rows.front();
    softmax.cost = cost_of(folder_, all_.request, softmax.mechanism, progress_);
    if (softmax.cost.state == "stopped") return stop();
    say_time(tasks);
    tasks.clear();
    bool failed = false;
    for (CompareRow& row : all_.rows) {
      row.cost = cost_of(folder_, all_.request, row.mechanism, progress_);
      if (row.cost.state == "stopped") return stop();
      if (row.cost.state != "failed") continue;
      failed = true;
      progress_.note(
          fmt::format("time and memory of {}: {}", row.mechanism.attention, row.cost.reason));
    }
    for (CompareRun& run : all_.runs) {
      write_comparison(folder_, all_);
      if (!stop_signal().empty()) return stop();
      if (run.state != "finished") train(run);
      if (run.state == "stopped") return stop();
      failed |= run.state == "failed";
      if (json_) print_json_line(json_of(run));
    }
    all_.running = false;
    write_comparison(folder_, all_);
    if (!json_) fmt::print("{}", markdown_of(all_));
    return failed ? static_cast<int>(ErrorKind::numeric) : 0;
  }

 private:
  void fill(const ComparePreset& preset) {
    CompareRequest& request = all_.request;
    const CompareRequest initial;
    if (request.tasks.empty()) request.tasks = preset.tasks;
    if (request.attentions == initial.attentions) request.attentions = preset.attentions;
  }

  void add_runs(const std::string& task) {
    for (int64_t seed = 1; seed <= seeds_of(all_.request.seeds, task); ++seed)
      for (const CompareRow& row : all_.rows) {
        const Compared& mechanism = row.mechanism;
        all_.runs.push_back(
            {task, mechanism, seed, run_config(all_.request, task, mechanism.attention, seed),
             fmt::format("{}/{}/seed-{}", task, mechanism.label, seed), "unfinished"});
      }
  }

  // Softmax's is the first of a task.
  void open_task(const CompareRun& run, std::map<std::string, std::unique_ptr<Task>>& tasks) {
    use_machine(run.config.threads, run.config.device, run.config.dtype);
    all_.threads = context().threads;
    const TaskEntry& entry = find_task(run.config.task);
    if (find_setting(entry.settings, "data") != nullptr && all_.request.data.empty() &&
        complete_settings(task_options(run.config, "")).text("data").empty())
      fail(ErrorKind::input, "the task {} reads a file; name it, or its folder, with --data",
           run.task);
    tasks[run.task] = make_task(task_options(run.config, ""));
    shapes_[run.task] = tasks[run.task]->shape();
    // Settings that fit no model of the task, before anything is written.
    if (exclusion(run).empty())
      static_cast<void>(make_model(model_config(run.config, shapes_[run.task])));
  }

  // What a run of the folder was trained with is what is asked for now, but for threads and the like.
  void refuse_other_settings(const CompareRun& run) const {
    if (!is_run(folder_ / run.folder)) return;
    RunConfig before = read_run_config(folder_ / run.folder);
    before.threads = run.config.threads;
    for (const SettingChange& change : setting_changes(before, run.config))
      if (change.setting.affects_training)
        fail(ErrorKind::usage,
             "{} was trained with other settings than {} asks for: {}; choose another --out",
             (folder_ / run.folder).string(), (folder_ / "compare.toml").string(), change.text);
  }

  void mark_wide_rows() {
    int64_t shortest = kMaxInt;
    for (const auto& [task, shape] : shapes_) shortest = std::min(shortest, shape.length);
    for (const CompareRun& run : all_.runs) {
      CompareRow& row = *std::find_if(
          all_.rows.begin(), all_.rows.end(),
          [&](const CompareRow& one) { return one.mechanism.label == run.mechanism.label; });
      if (row.reads_much || !exclusion(run).empty()) continue;
      try {
        const ModelConfig config = model_config(run.config, shapes_.at(run.task));
        row.reads_much = 4 * keys_read(config, shortest) > static_cast<double>(shortest);
      } catch (const Error&) {  // the run says so
      }
    }
  }

  // The time of what is left, as if each mechanism took that of softmax: the second of two steps.
  void say_time(const std::map<std::string, std::unique_ptr<Task>>& tasks) {
    double seconds = 0;
    int64_t runs = 0;
    std::map<std::string, double> of_step;
    for (const CompareRun& run : all_.runs) {
      if (run.state == "finished" || !exclusion(run).empty()) continue;
      if (of_step.count(run.task) == 0) {
        const Task& task = *tasks.at(run.task);
        const auto model = make_model(model_config(run.config, task.shape()));
        Optimizer optimizer(optimizer_config(run.config), model->parameters());
        for (int64_t step = 0; step < 2; ++step)
          of_step[run.task] = measure_step(*model, optimizer, task, run.config, step,
                                           run.config.batch, run.config.accumulate)
                                  .seconds;
      }
      seconds += of_step[run.task] * static_cast<double>(run.config.steps);
      ++runs;
    }
    for (const StepCost& step : all_.rows.front().cost.steps)
      seconds += step.seconds * static_cast<double>((kSteps + 1) * all_.rows.size());
    progress_.note(fmt::format(
        "{} of {} on {}: about {:.1f} hours, if each takes as long as softmax", plural(runs, "run"),
        plural(static_cast<int64_t>(all_.rows.size()), "mechanism"), fmt::join(all_.tasks, ", "),
        seconds / 3600));
  }

  // What the folder of a run holds.
  void read(CompareRun& run) const {
    const fs::path folder = folder_ / run.folder;
    if (!is_run(folder)) return;
    const RunHistory history = read_history(folder);
    if (state_of(history, read_run_config(folder)) == "finished") run.state = "finished";
    run.step = history.step();
    run.seconds = history.seconds();
    run.parameters = count_saved_parameters(folder);
    const auto last = [&](const char* name) -> std::optional<double> {
      const MetricsLine* line = history.last(name);
      if (line == nullptr || !std::isfinite(line->value(name))) return {};
      return line->value(name);
    };
    const std::string of = history.last("whole_val_loss") != nullptr ? "whole_val_" : "val_";
    const auto validation = [&](const char* name) { return last((of + name).c_str()); };
    run.loss = validation("loss");
    run.accuracy = validation("accuracy");
    run.majority = validation("majority");
    run.answers = validation("tokens");
    run.tokens_per_s = last("tokens_per_s").value_or(0);
    run.peak_bytes = last("peak_bytes").value_or(0);
    if (run.loss && run.accuracy)
      run.score = score_of(run.config, shapes_.at(run.task), *run.loss, *run.accuracy);
  }

  std::string exclusion(const CompareRun& run) const {
    return bench::exclusion(run.config, shapes_.at(run.task));
  }

  void train(CompareRun& run) {
    const fs::path folder = folder_ / run.folder;
    if (run.reason = exclusion(run); !run.reason.empty()) {
      run.state = "excluded";
      return;
    }
    try {
      const bool resume = is_run(folder);
      const RunConfig config = resume ? read_run_config(folder) : run.config;
      const int code = with_out_of_memory_hint(config, [&] {
        return Trainer(config, folder, resume, false, progress_, "", true).run();
      });
      read(run);
      run.state = code == 0 ? "finished" : "stopped";
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::write) throw;
      read(run);
      run.state = "failed";
      run.reason = error.what();
      progress_.note(fmt::format("{}: {}", run.folder, run.reason));
    }
  }

  int stop() {
    all_.running = false;
    write_comparison(folder_, all_);
    progress_.note(fmt::format("stopped and saved; continue with: linea compare --resume {}",
                               shell_quote(folder_.string())));
    return kExitStopped;
  }

  const fs::path folder_;
  const bool json_;
  ProgressReporter& progress_;
  Comparison all_;
  std::map<std::string, TaskShape> shapes_;
};

}  // namespace

int compare(const CompareRequest& request, const fs::path& folder, bool json,
            const std::string& version, ProgressReporter& progress) {
  return Comparer(request, folder, json, version, progress).run();
}

}  // namespace linea::bench
