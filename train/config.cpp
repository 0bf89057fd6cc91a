#include "train/config.h"

#include <algorithm>
#include <filesystem>

#include "data/one_line.h"
#include "tensor/context.h"
#include "train/format.h"
#include "train/presets.h"
#include "train/signals.h"
#include "train/suggestion.h"

namespace linea {
namespace {

constexpr const char* kNotSet = "not set";  // of a mechanism that was not chosen

SettingValue value_of(const RunConfig& config, const GeneralSetting& general) {
  return std::visit([&](auto member) -> SettingValue { return config.*member; }, general.member);
}

// Assigns the settings of the layers, one after the other.
class Resolver {
 public:
  // A setting may come before the layer that names its mechanism.
  explicit Resolver(const std::vector<SettingLayer>& layers) {
    for (const MechanismKind& kind : kinds_)
      for (const SettingLayer& layer : layers)
        if (layer.values.has(kind.key)) {
          choose(kind, layer);
          break;
        }
  }

  void apply(const SettingLayer& layer) {
    for (const MechanismKind& kind : kinds_)
      if (layer.values.has(kind.key)) choose(kind, layer);
    const RunConfig before = config_;
    for (const std::string& key : in_order(layer)) try {
        assign(key, layer.values.at(key), layer.source.empty());
      } catch (const Error& error) {
        refuse(layer, key, error.what());
      }
    for (const MechanismKind& kind : kinds_) {
      if (!layer.source.empty()) replace_other_names(kind, layer);
      drop_conditional(kind, layer, before.*kind.settings);
    }
  }

  const RunConfig& config() const { return config_; }

 private:
  [[noreturn]] static void refuse(const SettingLayer& layer, const std::string& key,
                                  std::string message) {
    if (layer.source.empty()) throw Error(ErrorKind::usage, message);
    std::replace(message.begin(), message.end(), '`', '\'');
    const auto line = layer.lines.find(key);
    fail(ErrorKind::usage, "{}{}: {}", layer.source,
         line == layer.lines.end() ? "" : fmt::format(":{}", line->second), one_line(message));
  }

  static std::vector<std::string> in_order(const SettingLayer& layer) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : layer.values) keys.push_back(key);
    const auto line = [&](const std::string& key) {
      const auto found = layer.lines.find(key);
      return found == layer.lines.end() ? 0 : found->second;
    };
    std::stable_sort(keys.begin(), keys.end(),
                     [&](const std::string& a, const std::string& b) { return line(a) < line(b); });
    return keys;
  }

  void choose(const MechanismKind& kind, const SettingLayer& layer) {
    try {
      const SettingValue& value = layer.values.at(kind.key);
      const std::string name = to_string(value);
      const Mechanism& mechanism = find_named(kind.key, kind.mechanisms, name);
      if (config_.*kind.name == name) return;
      unchosen_[kind.key + " " + config_.*kind.name] = config_.*kind.settings;
      Settings kept = unchosen_[kind.key + " " + name];
      if (kind.keeps_shared)
        for (const auto& [key, own] : config_.*kind.settings)
          if (find_setting(mechanism.settings, key) != nullptr) kept[key] = own;
      config_.*kind.name = name;
      config_.*kind.settings = kept;
    } catch (const Error& error) {
      refuse(layer, kind.key, error.what());
    }
  }

  void replace_other_names(const MechanismKind& kind, const SettingLayer& layer) {
    for (const Mechanism& mechanism : kind.mechanisms) {
      if (mechanism.name != config_.*kind.name) continue;
      try {
        linea::replace_other_names(mechanism.settings, layer.values, config_.*kind.settings);
      } catch (const Error& error) {
        refuse(layer, "", error.what());
      }
    }
  }

  // Settings of earlier layers whose condition (Setting::only_with) this layer ends.
  void drop_conditional(const MechanismKind& kind, const SettingLayer& layer,
                        const Settings& before) {
    Settings& own = config_.*kind.settings;
    for (const Mechanism& mechanism : kind.mechanisms)
      if (mechanism.name == config_.*kind.name)
        for (const Setting& setting : mechanism.settings)
          if (!layer.values.has(setting.key) && applies(setting, before) && !applies(setting, own))
            own.erase(setting.key);
  }

  static SettingValue checked(const Setting& setting, const SettingValue& given, bool as_text) {
    if (as_text) return parse_value(setting, std::get<std::string>(given));
    SettingValue value = given;
    check_value(setting, value);
    return value;
  }

  void assign(const std::string& key, const SettingValue& value, bool as_text) {
    for (const GeneralSetting& general : general_settings_)
      if (general.setting.key == key) {
        const SettingValue typed = checked(general.setting, value, as_text);
        std::visit(
            [&](auto member) {
              config_.*member = std::get<std::decay_t<decltype(config_.*member)>>(typed);
            },
            general.member);
        return;
      }
    for (const MechanismKind& kind : kinds_)
      for (const Mechanism& mechanism : kind.mechanisms)
        if (mechanism.name == config_.*kind.name)
          if (const Setting* setting = find_setting(mechanism.settings, key)) {
            Settings& own = config_.*kind.settings;
            own[key] = checked(*setting, value, as_text);
            // On the command line a name for a value acts at its place: the later of two wins.
            if (as_text) linea::replace_other_names({*setting}, {{key, own.at(key)}}, own);
            return;
          }
    refuse_foreign(key);
  }

  // No chosen mechanism has this setting.
  [[noreturn]] void refuse_foreign(const std::string& key) const {
    std::vector<std::string> known;
    for (const GeneralSetting& general : general_settings_) known.push_back(general.setting.key);
    for (const MechanismKind& kind : kinds_) {
      std::vector<std::string> owners;
      for (const Mechanism& mechanism : kind.mechanisms) {
        if (find_setting(mechanism.settings, key) != nullptr) owners.push_back(mechanism.name);
        for (const Setting& setting : mechanism.settings) known.push_back(setting.key);
      }
      if (owners.empty()) continue;
      const std::string& chosen = config_.*kind.name;
      if (chosen.empty())
        fail(ErrorKind::usage, "`{}` is a setting of {} {}: choose one by `{}`", key, kind.key,
             fmt::join(owners, ", "), kind.key);
      fail(ErrorKind::usage, "`{}` is a setting of {} {}, not of {}; leave it out", key, kind.key,
           fmt::join(owners, ", "), chosen);
    }
    const std::string meant = suggestion(key, known);
    fail(ErrorKind::usage, "there is no setting '{}'{}", one_line(key),
         meant.empty() ? "; see linea train --help" : meant);
  }

  const std::vector<MechanismKind> kinds_ = mechanism_kinds();
  const std::vector<GeneralSetting> general_settings_ = general_settings();
  RunConfig config_;
  std::map<std::string, Settings> unchosen_;  // of mechanisms that a later layer may choose again
};

// What the chosen mechanism declares.
const Declarations* declared_by(const MechanismKind& kind, const RunConfig& config) {
  for (const Mechanism& mechanism : kind.mechanisms)
    if (mechanism.name == config.*kind.name) return &mechanism.settings;
  return nullptr;
}

void check_general(const RunConfig& config) {
  for (const GeneralSetting& general : general_settings()) {
    SettingValue value = value_of(config, general);
    if (general.setting.key != "task") check_value(general.setting, value);
  }
}

}  // namespace

RunConfig resolve(const std::vector<SettingLayer>& layers) {
  Resolver resolver(layers);
  for (const SettingLayer& layer : layers) resolver.apply(layer);
  return resolver.config();
}

void set_defaults(RunConfig& config, const Settings& values) {
  for (const MechanismKind& kind : mechanism_kinds())
    if (const Declarations* declared = declared_by(kind, config))
      for (const auto& [key, value] : values)
        if (find_setting(*declared, key) != nullptr && !(config.*kind.settings).has(key))
          (config.*kind.settings)[key] = value;
}

std::vector<AppliedSetting> applied_settings(const RunConfig& config) {
  const std::vector<MechanismKind> kinds = mechanism_kinds();
  std::vector<AppliedSetting> result;
  for (const GeneralSetting& general : general_settings()) {
    result.push_back({general.setting, general.group, value_of(config, general)});
    for (const MechanismKind& kind : kinds) {
      const Declarations* declared = declared_by(kind, config);
      if (kind.key != general.setting.key || declared == nullptr) continue;
      const Settings values =
          complete(*declared, config.*kind.settings, kind.key + " " + config.*kind.name);
      for (const Setting& setting : *declared)
        if (values.has(setting.key))
          result.push_back({setting, general.group, values.at(setting.key)});
    }
  }
  return result;
}

std::vector<SettingChange> setting_changes(const RunConfig& before, const RunConfig& now) {
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

AttentionOptions attention_options(const RunConfig& config) {
  AttentionOptions options{config.attention, config.attention_settings};
  options.segment = config.segment;
  options.chunk = config.chunk;
  return options;
}

ModelConfig model_config(const RunConfig& config, const TaskShape& shape) {
  require(
      config.output_head != "logistics" || shape.levels > 0,
      "`output_head` logistics needs brightness levels, and {} has none: leave it out, or choose "
      "a task of images",
      config.task.empty() ? "a benchmark of random tokens" : "task " + config.task);
  ModelConfig model;
  model.attention = attention_options(config);
  model.layers = config.layers;
  model.heads = config.heads;
  model.dim = config.dim;
  model.ffn = config.ffn;
  model.length = shape.length;
  model.vocab_size = shape.vocab_size;
  model.input_vocab_size = shape.input_vocab_size;
  model.second_vocab_size = shape.second_vocab_size;
  model.positions = config.positions;
  model.embedding_convolution = config.embedding_convolution;
  model.layer_convolution = config.layer_convolution;
  model.class_embedding = config.class_embedding;
  model.bigram_embedding = config.bigram_embedding;
  model.classes = shape.classes;
  model.attention_output = config.attention_output;
  model.no_class = shape.no_class;
  model.image_width = shape.side;
  model.image_channels = shape.channels;
  model.output_head = config.output_head;
  model.tie = config.tie;
  model.recompute = config.recompute;
  model.reversible = config.reversible;
  model.bias = config.bias;
  model.dropout = static_cast<float>(config.dropout);
  const DType asked = config.dtype == "bf16" ? DType::bf16 : DType::f32;
  model.stored = context().device.kind == DeviceKind::cuda ? asked : DType::f32;
  model.panels = asked;
  model.seed = static_cast<uint64_t>(config.seed);
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
  complete_settings(attention_options(config));
  complete(find_optimizer(config.optimizer).settings, config.optimizer_settings,
           "optimizer " + config.optimizer);
  require(config.spike_guard == 0 || config.spike_guard > 1,
          "`spike_guard` is {}; it must be above 1, or 0 for none", config.spike_guard);
  parse_duration(config.max_time);
  require(config.min_lr <= config.lr,
          "`min_lr` is {}, above `lr` {}: the learning rate would rise; lower `min_lr`",
          config.min_lr, config.lr);
  check_machine(config.device, config.dtype, work);
  require(!config.reversible || config.dtype != "bf16" || work != Work::training,
          "`reversible` does not go with `dtype` bf16: the inputs that its backward restores would "
          "lose digits; leave one out");
}

}  // namespace linea
