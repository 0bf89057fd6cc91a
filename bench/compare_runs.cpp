// The runs of a comparison: each is one of the trainer's, in a folder of its own.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/compare.h"
#include "data/files.h"
#include "data/json.h"
#include "nn/attention_list.h"
#include "nn/model.h"
#include "tensor/context.h"
#include "train/format.h"
#include "train/record/run_history.h"
#include "train/run/signals.h"
#include "train/run/step_memory.h"
#include "train/run/trainer.h"

namespace linea::bench {
namespace {

namespace fs = std::filesystem;

// "1,copy=3" -> the number of seeds of the task.
int64_t seeds_of(const std::string& list, const std::string& task) {
  int64_t seeds = 1;
  for (const std::string& item : split_list(list)) {
    const size_t equals = item.find('=');
    const bool own = equals != std::string::npos;
    if (own && item.substr(0, equals) != task) continue;
    seeds = parse_number<int64_t>("seeds", own ? item.substr(equals + 1) : item);
    require(seeds >= 1 && seeds <= 1000, "`seeds` is {}; choose from 1 to 1000", seeds);
    if (own) break;
  }
  return seeds;
}

const ComparePreset* find_preset(const std::string& name) {
  if (name.empty()) return nullptr;
  for (const ComparePreset& preset : compare_presets())
    if (preset.name == name) return &preset;
  fail(ErrorKind::usage, "there is no preset '{}' of comparisons; choose one of {}", name,
       fmt::join(compare_preset_names(), ", "));
}

// The settings of a task: one of compared_tasks(), or a preset of linea train.
std::string task_settings(const std::string& name) {
  std::vector<std::string> names;
  for (const ComparedTask& task : compared_tasks()) {
    if (task.name == name) return task.settings;
    names.push_back(task.name);
  }
  const std::vector<std::string> presets = preset_names();
  if (std::find(presets.begin(), presets.end(), name) == presets.end())
    fail(ErrorKind::usage, "`tasks` has '{}'; choose from {}, or a preset of linea train", name,
         fmt::join(names, ", "));
  return preset_text(name);
}

// `data` may be the file of the text, or a folder that linea data get filled.
std::string data_path(const std::string& data, const std::string& task) {
  std::error_code error;
  if (!fs::is_directory(data, error)) return data;
  const fs::path folder(data);
  if (task != "text") return fs::exists(folder / task, error) ? (folder / task).string() : data;
  for (const char* name : {"tinyshakespeare/input.txt", "tinyshakespeare.txt", "input.txt"})
    if (fs::exists(folder / name, error)) return (folder / name).string();
  return (folder / "tinyshakespeare" / "input.txt").string();
}

RunConfig config_of(const CompareRequest& request, const std::string& task,
                    const std::string& attention, int64_t seed) {
  // The mechanism of a preset and its settings are none of the comparison's.
  SettingLayer base = parse_toml(task_settings(task), "task " + task);
  for (const Setting& setting : declared_by(parse_attentions(
           base.values.has("attention") ? base.values.text("attention") : "linear")))
    base.values.erase(setting.key);
  std::vector<SettingLayer> layers = {base};
  if (const ComparePreset* preset = find_preset(request.preset))
    layers.push_back(parse_toml(preset->settings, "preset " + preset->name));
  layers.push_back({request.given, "", {}});
  layers.push_back({{{"attention", attention}, {"seed", std::to_string(seed)}}, "", {}});
  RunConfig config = resolve(layers);
  if (find_setting(find_task(config.task).settings, "data") != nullptr && !request.data.empty())
    config.task_settings["data"] = data_path(request.data, config.task);
  config.sample_every = 0;
  check_settings(config);
  return config;
}

// 100 (U - loss) / U with U = ln vocabulary for what has no right answer, else the accuracy in %.
double score_of(const RunConfig& config, const TaskShape& shape, double loss, double accuracy) {
  const bool language =
      shape.answer_tokens == 0 && (shape.side > 0 || find_task(config.task).has_vocabulary);
  const double uniform = std::log(static_cast<double>(shape.vocab_size));
  return language ? 100 * (uniform - loss) / uniform : 100 * accuracy;
}

std::string growth_of(const std::string& attention) {
  double growth = 0;
  for (const AttentionOptions& item : parse_attentions(attention)) try {
      const auto one = make_smallest(item);
      if (!one->traits().not_causal.empty()) return "-";
      growth = std::max(growth, one->traits().state_growth);
    } catch (const Error&) {
      return "-";  // needs an image
    }
  return growth > 0 ? "grows" : "constant";
}

class Comparer {
 public:
  Comparer(const CompareRequest& request, const fs::path& folder, bool json,
           ProgressReporter& progress)
      : folder_(folder), json_(json), progress_(progress) {
    all_.request = request;
    if (const ComparePreset* preset = find_preset(request.preset)) fill(*preset);
    require(!all_.request.tasks.empty(), "say on what to compare: `tasks`, or a `preset`: {}",
            fmt::join(compare_preset_names(), ", "));
    all_.tasks = split_list(all_.request.tasks);
    for (const Compared& mechanism : compared_attentions(all_.request.attentions))
      all_.rows.push_back({mechanism, growth_of(mechanism.attention)});
    for (const std::string& task : all_.tasks) add_runs(task);
  }

  int run() {
    watch_signals();
    std::map<std::string, std::unique_ptr<Task>> tasks;
    for (const CompareRun& run : all_.runs)
      if (tasks.count(run.task) == 0) open_task(run, tasks);
    make_folders(folder_);
    write_file_atomically(folder_ / "compare.toml", to_toml(all_.request));
    say_time(tasks);
    tasks.clear();
    for (CompareRun& run : all_.runs) read(run);
    write_comparison(folder_, all_);
    bool failed = false;
    for (CompareRun& run : all_.runs) {
      if (!stop_signal().empty()) return stop();
      if (run.state != "finished") train(run);
      if (run.state == "stopped") return stop();
      failed |= run.state == "failed";
      write_comparison(folder_, all_);
      if (json_) print_json_line(json_of(run));
    }
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
            {task, mechanism, seed, config_of(all_.request, task, mechanism.attention, seed),
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
  }

  // As if each mechanism took the time of softmax: of the second of two steps.
  void say_time(const std::map<std::string, std::unique_ptr<Task>>& tasks) {
    double seconds = 0;
    std::map<std::string, double> of_step;
    for (const CompareRun& run : all_.runs) {
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
    }
    progress_.note(
        fmt::format("{} of {} on {}: about {:.1f} hours, if each takes as long as softmax",
                    plural(static_cast<int64_t>(all_.runs.size()), "run"),
                    plural(static_cast<int64_t>(all_.rows.size()), "mechanism"),
                    fmt::join(all_.tasks, ", "), seconds / 3600));
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
    run.loss = last("val_loss");
    run.accuracy = last("val_accuracy");
    run.tokens_per_s = last("tokens_per_s").value_or(0);
    run.peak_bytes = last("peak_bytes").value_or(0);
    if (run.loss && run.accuracy)
      run.score = score_of(run.config, shapes_.at(run.task), *run.loss, *run.accuracy);
  }

  // Why the task and the mechanism do not go together; "": they do.
  std::string exclusion(const CompareRun& run) const {
    try {
      const ModelConfig config = model_config(run.config, shapes_.at(run.task));
      static_cast<void>(make_model(config));
      for (const AttentionOptions& item : config.attentions) {
        AttentionOptions sized = item;
        sized.key_size = sized.value_size = config.dim / config.heads;
        sized.heads = config.heads;
        sized.length = config.length;
        if (config.causal && !make_attention(sized)->traits().not_causal.empty())
          return "no causal form";
      }
    } catch (const Error& error) {
      const std::string what = error.what();
      if (error.kind() != ErrorKind::usage) return "";  // the run says so
      if (what.find("needs an image") != std::string::npos) return "needs an image";
      if (what.find("no causal form") != std::string::npos) return "no causal form";
    }
    return "";
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
            ProgressReporter& progress) {
  return Comparer(request, folder, json, progress).run();
}

}  // namespace linea::bench
