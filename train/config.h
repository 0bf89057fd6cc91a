// Every setting of a training run. Flags, TOML keys, their defaults and help follow from one list
// of declarations: general_settings(), and those of the chosen task, attention and optimizer.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "train/machine.h"

namespace linea {

constexpr int64_t kMaxJudgedSamples = 100000;  // of linea judge and of judge_samples

// The settings of a mechanism are those that the user chose; the others have their defaults.
struct RunConfig : ModelSettings {
  // data
  std::string task;
  Settings task_settings{};
  // model, with the base
  std::string attention = "linear";  // or several (nn/attention_list.h)
  Settings attention_settings{};
  // training
  int64_t batch = 16, accumulate = 1, steps = 1000;
  std::string optimizer = "adamw";
  Settings optimizer_settings{};
  double lr = 1e-3, min_lr = 1e-4, clip = 1.0;
  int64_t warmup = 100, decay_steps = 0, eval_every = 0, save_every = 0, sample_every = 0,
          keep_last = 3, keep_every = 0, judge_samples = 0, early_stop = 0;
  double spike_guard = 0, ema = 0;
  std::string max_time;
  bool tensorboard = false;
  // machine
  int64_t threads = 0, sequence_ranks = 1, segment = 0, chunk = 0;
  std::string device = "cpu", dtype = "fp32", comm_timeout = "10m";
};

// A setting that every run has.
struct GeneralSetting {
  Setting setting;
  std::string group;
  std::variant<bool RunConfig::*, int64_t RunConfig::*, double RunConfig::*,
               std::string RunConfig::*>
      member;
};
// In the order in which files and help list them.
std::vector<GeneralSetting> general_settings();

// Settings of earlier versions, with the defaults that their files may hold: they are ignored, and
// other values are refused.
const Settings& deleted_settings();

// A kind of mechanism, of which a run chooses one by the general setting `key`.
struct MechanismKind {
  std::string key;
  std::string RunConfig::*name;
  Settings RunConfig::*settings;
  std::vector<Mechanism> mechanisms;
  bool keeps_shared;     // where another is chosen, settings that it declares too keep their values
  bool in_turn = false;  // a list of them, which the layers take in turn (nn/attention_list.h)
};
std::vector<MechanismKind> mechanism_kinds();  // task, attention, optimizer
// What the mechanism of this name, or those of a list, declare; of an empty name, nothing.
Declarations declared_by(const MechanismKind& kind, const std::string& name);

// Settings from one place. `source` names it in errors, empty for the command line; there all
// values are texts, to be read as what each setting holds.
struct SettingLayer {
  Settings values;
  std::string source{};
  // Where the keys are: lines of a file, or positions on the command line. They are assigned in this
  // order, so that of two keys for one thing the later one wins.
  std::map<std::string, int64_t> lines{};
};
// A later layer overrides an earlier one. The settings of a mechanism apply where the last layers
// choose it. Errors: ErrorKind::usage, an unknown key (with the nearest known one), a setting of a
// mechanism that is not chosen, a value outside of its setting's range.
RunConfig resolve(const std::vector<SettingLayer>& layers);
// Sets what the chosen mechanisms declare, where it is not set, and ignores the rest.
void set_defaults(RunConfig& config, const Settings& values);

// A setting that applies, with its value.
struct AppliedSetting {
  Setting setting;
  std::string group;
  SettingValue value;
};
// In the order of their declarations, those of a mechanism after the setting that chooses it.
std::vector<AppliedSetting> applied_settings(const RunConfig& config);

// "lr was 0.001, is 0.01": the settings of `now` with other values than in `before`. Where they
// attend_alike(), another text of the attentions is no change.
struct SettingChange {
  Setting setting;
  std::string before;  // "not set" where it did not apply
  std::string text;
};
std::vector<SettingChange> setting_changes(const RunConfig& before, RunConfig now);
// Error: ErrorKind::usage naming a setting of the run that may not change on this occasion.
void refuse_changes(const RunConfig& before, const RunConfig& now, const std::string& run,
                    MayChange occasion);
// Another place of the data. Error: ErrorKind::usage, a task that reads none.
void set_data(RunConfig& config, const std::string& data);

// A file of settings. Error: ErrorKind::usage, what is not TOML, holds tables or is too large.
SettingLayer parse_toml(const std::string& text, const std::string& source);
RunConfig config_from_toml(const std::string& text, const std::string& source);
std::string to_toml(const RunConfig& config);

// The files of configs/, which are part of the program. Error: an unknown name, with those that
// exist.
std::string preset_text(const std::string& name);
std::vector<std::string> preset_names();

TaskOptions task_options(const RunConfig& config, const std::string& vocabulary);
// The task of a run that was saved. Error: that of make_task, with what to do where the data is not
// where the run read it.
std::unique_ptr<Task> make_saved_task(const TaskOptions& options);
// The attentions that the layers take in turn. Errors: those of nn/attention_list.h.
std::vector<AttentionOptions> attention_options(const RunConfig& config);
// Whether all layers have the same attentions, however the lists are written.
bool attend_alike(const RunConfig& one, const RunConfig& other);
// "layers 0-2, 4-6: linear --feature elu", a line for each of several attentions.
std::vector<std::string> layers_by_attention(const RunConfig& config);
ModelConfig model_config(const RunConfig& config, const TaskShape& shape);
OptimizerConfig optimizer_config(const RunConfig& config);
// The step at which the learning rate has fallen to min_lr, and annealing ends.
int64_t schedule_end(const RunConfig& config);
double learning_rate_at(int64_t step, const RunConfig& config);

// Error: ErrorKind::usage where settings cannot work (no task, an unknown device, settings of the
// mechanisms that do not go together ...).
void check_settings(const RunConfig& config);
// All of these but what concerns the task.
void check_model_settings(const RunConfig& config, Work work);

}  // namespace linea
