#include "train/config.h"

#include <algorithm>
#include <filesystem>

#include "nn/attention_list.h"
#include "tensor/context.h"
#include "train/format.h"
#include "train/presets.h"
#include "train/run/signals.h"
#include "train/suggestion.h"

namespace linea {
namespace {

constexpr const char* kNotSet = "not set";  // of a mechanism that was not chosen

SettingValue value_of(const RunConfig& config, const GeneralSetting& general) {
  return std::visit([&](auto member) -> SettingValue { return config.*member; }, general.member);
}

// All values that apply to the chosen mechanism. Those that differ among the items of a list are in
// `name`.
Settings complete_settings(const MechanismKind& kind, const RunConfig& config, std::string& name) {
  const Settings& given = config.*kind.settings;
  if (!kind.in_turn) return complete(declared_by(kind, name), given, kind.key + " " + name);
  std::vector<AttentionOptions> items = parse_attentions(name);
  const Settings values = complete_shared(items, given);
  name = attention_list(items);
  return values;
}

void check_general(const RunConfig& config) {
  for (const GeneralSetting& general : general_settings()) {
    SettingValue value = value_of(config, general);
    if (general.setting.key != "task") check_value(general.setting, value);
  }
}

}  // namespace

void set_defaults(RunConfig& config, const Settings& values) {
  for (const MechanismKind& kind : mechanism_kinds())
    for (const Setting& setting : declared_by(kind, config.*kind.name))
      if (values.has(setting.key) && !(config.*kind.settings).has(setting.key))
        (config.*kind.settings)[setting.key] = values.at(setting.key);
}

std::vector<AppliedSetting> applied_settings(const RunConfig& config) {
  const std::vector<MechanismKind> kinds = mechanism_kinds();
  std::vector<AppliedSetting> result;
  for (const GeneralSetting& general : general_settings()) {
    result.push_back({general.setting, general.group, value_of(config, general)});
    for (const MechanismKind& kind : kinds) {
      std::string name = config.*kind.name;
      if (kind.key != general.setting.key || name.empty()) continue;
      const Settings values = complete_settings(kind, config, name);
      result.back().value = name;
      for (const Setting& setting : declared_by(kind, config.*kind.name))
        if (values.has(setting.key))
          result.push_back({setting, general.group, values.at(setting.key)});
    }
  }
  return result;
}

std::vector<SettingChange> setting_changes(const RunConfig& before, RunConfig now) {
  if (attend_alike(before, now)) {
    now.attention = before.attention;
    now.attention_settings = before.attention_settings;
  }
  Settings was;
  for (const AppliedSetting& applied : applied_settings(before))
    was[applied.setting.key] = applied.value;
  std::vector<SettingChange> changes;
  for (const auto& [setting, group, value] : applied_settings(now)) {
    if (was.has(setting.key) && was.at(setting.key) == value) continue;
    const std::string old = was.has(setting.key) ? to_string(was.at(setting.key)) : kNotSet;
    changes.push_back(
        {setting, old, fmt::format("{} was {}, is {}", setting.key, old, to_string(value))});
  }
  return changes;
}

void refuse_changes(const RunConfig& before, const RunConfig& now, const std::string& run,
                    MayChange occasion) {
  for (const SettingChange& change : setting_changes(before, now)) {
    const MayChange may = change.setting.may_change;
    if (may <= occasion) continue;
    // The other mechanism is refused, or may be chosen.
    if (occasion == MayChange::by_init_from && change.before == kNotSet) continue;
    fail(ErrorKind::usage, "`{}` was {} in {} and cannot change{}", change.setting.key,
         change.before, run,
         may == MayChange::never
             ? "; leave it out"
             : fmt::format(" on `resume`; start a new run with `init_from` {}", shell_quote(run)));
  }
}

void set_data(RunConfig& config, const std::string& data) {
  require(find_setting(find_task(config.task).settings, "data") != nullptr,
          "task {} makes its data; leave `data` out", config.task);
  config.task_settings["data"] = data;
}

RunConfig config_from_toml(const std::string& text, const std::string& source) {
  return resolve({parse_toml(text, source)});
}

std::string preset_text(const std::string& name) {
  for (const Preset& preset : kPresets)
    if (name == preset.name) return preset.text;
  const std::string close = nearest(name, preset_names());
  fail(ErrorKind::usage, "there is no preset '{}'; {}there are {}", name,
       close.empty() ? "" : "the nearest is '" + close + "', ", fmt::join(preset_names(), ", "));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

TaskOptions task_options(const RunConfig& config, const std::string& vocabulary) {
  return {config.task, config.task_settings, static_cast<uint64_t>(config.seed), vocabulary};
}

std::unique_ptr<Task> make_saved_task(const TaskOptions& options) try {
  return make_task(options);
} catch (const Error& error) {
  namespace fs = std::filesystem;
  if (error.kind() != ErrorKind::input || !options.settings.has("data")) throw;
  const std::string& data = options.settings.text("data");
  std::error_code ignored;
  const bool relative = fs::path(data).is_relative() && !fs::exists(data, ignored);
  fail(ErrorKind::input, "{}; {}give its path by `data`", error.what(),
       relative ? fmt::format("the run names its data relative to the folder in which it was "
                              "started, and this is {}: start there, or ",
                              fs::current_path(ignored).string())
                : "if the data was moved, ");
}

std::vector<AttentionOptions> attention_options(const RunConfig& config) {
  std::vector<AttentionOptions> items =
      with_shared(parse_attentions(config.attention), config.attention_settings);
  for (AttentionOptions& item : items) {
    item.segment = config.segment;
    item.chunk = config.chunk;
  }
  return items;
}

bool attend_alike(const RunConfig& one, const RunConfig& other) {
  const std::vector<AttentionOptions> a = attention_options(one), b = attention_options(other);
  for (size_t layer = 0; layer < a.size() * b.size(); ++layer) {
    const AttentionOptions &x = a[layer % a.size()], &y = b[layer % b.size()];
    if (x.name != y.name || complete_settings(x) != complete_settings(y)) return false;
  }
  return true;
}

std::vector<std::string> layers_by_attention(const RunConfig& config) {
  std::vector<std::string> items, lines;
  for (const AttentionOptions& item : attention_options(config)) items.push_back(label_of(item));
  const auto label = [&](int64_t layer) {
    return items[static_cast<size_t>(layer) % items.size()];
  };
  for (auto item = items.begin(); item != items.end(); ++item) {
    if (std::find(items.begin(), item, *item) != item) continue;
    std::vector<std::string> ranges;
    for (int64_t first = 0, next = 1; first < config.layers; first = next++) {
      while (next < config.layers && label(next) == label(first)) ++next;
      if (label(first) == *item)
        ranges.push_back(next - first == 1 ? fmt::format("{}", first)
                                           : fmt::format("{}-{}", first, next - 1));
    }
    const std::string all = fmt::format("{}", fmt::join(ranges, ", "));
    const bool several = all.find_first_of("-,") != std::string::npos;
    lines.push_back(fmt::format("{} {}: {}", several ? "layers" : "layer", all, *item));
  }
  return lines.size() > 1 ? lines : std::vector<std::string>();
}

namespace {

// Whether rows may not read later ones: where the task predicts its own input, where the user says
// so, and where an attention has no other form.
bool is_causal(const RunConfig& config, const TaskShape& shape, const ModelConfig& model) {
  if (shape.answer_tokens == 0 || config.mask == "causal") return true;
  for (size_t item = 0; item < model.attentions.size(); ++item)
    if (make_smallest(model.attention_of(static_cast<int64_t>(item)))->traits().causal_only)
      return true;
  return false;
}

}  // namespace

ModelConfig model_config(const RunConfig& config, const TaskShape& shape) {
  require(
      config.output_head != "logistics" || shape.levels > 0,
      "`output_head` logistics needs brightness levels, and {} has none: leave it out, or choose "
      "a task of images",
      config.task.empty() ? "a benchmark of random tokens" : "task " + config.task);
  const bool answers = shape.answer_tokens > 0;
  require(!answers || config.output_head == "categorical",
          "`output_head` {} predicts brightness levels, and task {} a class: leave it out",
          config.output_head, config.task);
  require(
      !answers || !config.skip_blank,
      "`skip_blank` needs a task that predicts pixels, and task {} predicts a class: leave it out",
      config.task);
  require(
      !answers || !config.tie,
      "`tie` needs a task that predicts the tokens that it reads, and task {} predicts a class: "
      "leave it out",
      config.task);
  ModelConfig model{config};
  model.attentions = attention_options(config);
  model.length = shape.length;
  model.vocab_size = shape.vocab_size;
  model.input_vocab_size = shape.input_vocab_size;
  model.second_vocab_size = shape.second_vocab_size;
  model.classes = shape.classes;
  model.no_class = shape.no_class;
  model.image_width = shape.side;
  model.image_channels = shape.channels;
  model.causal = is_causal(config, shape, model);
  const DType asked = config.dtype == "bf16" ? DType::bf16 : DType::f32;
  model.stored = context().device.kind == DeviceKind::cuda ? asked : DType::f32;
  model.panels = asked;
  return model;
}

OptimizerConfig optimizer_config(const RunConfig& config) {
  return {.name = config.optimizer,
          .settings = config.optimizer_settings,
          .clip = config.clip,
          .peak = config.lr};
}

int64_t schedule_end(const RunConfig& config) {
  return config.decay_steps > 0 ? config.decay_steps : config.steps;
}

double learning_rate_at(int64_t step, const RunConfig& config) {
  return learning_rate_at(step, schedule_end(config), config.warmup, config.lr, config.min_lr);
}

void check_settings(const RunConfig& config) {
  require(!config.task.empty(), "say what to learn: `task` {} (or a `preset`: {})",
          fmt::join(task_names(), ", "), fmt::join(preset_names(), ", "));
  complete_settings(task_options(config, ""));
  check_model_settings(config, Work::training);
  static_cast<void>(to_toml(config));  // refuses a text that config.toml cannot hold
  require(config.early_stop == 0 || config.eval_every > 0,
          "`early_stop` is {}, but only the end of the run is evaluated: give `eval_every`",
          config.early_stop);
}

void check_model_settings(const RunConfig& config, Work work) {
  check_general(config);
  for (const AttentionOptions& item : attention_options(config)) complete_settings(item);
  complete(find_named("optimizer", optimizers(), config.optimizer).settings,
           config.optimizer_settings, "optimizer " + config.optimizer);
  require(config.spike_guard == 0 || config.spike_guard > 1,
          "`spike_guard` is {}; it must be above 1, or 0 for none", config.spike_guard);
  parse_duration(config.max_time);
  parse_duration(config.comm_timeout, "`comm_timeout`");
  require(config.min_lr <= config.lr,
          "`min_lr` is {}, above `lr` {}: the learning rate would rise; lower `min_lr`",
          config.min_lr, config.lr);
  check_machine(config.device, config.dtype, work);
  require(!config.reversible || config.dtype != "bf16" || work != Work::training,
          "`reversible` does not go with `dtype` bf16: the inputs that its backward restores would "
          "lose digits; leave one out");
}

}  // namespace linea
