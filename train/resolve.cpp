// One RunConfig from settings of several places: defaults, presets, files, flags.
#include <algorithm>

#include "data/one_line.h"
#include "nn/attention_list.h"
#include "train/config.h"
#include "train/machine.h"
#include "train/suggestion.h"

namespace linea {
namespace {

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
        if (!is_deleted(key, layer.values.at(key)))
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
      std::string name = to_string(value);
      if (kind.in_turn) name = attention_list(parse_attentions(name));
      const Declarations declared = declared_by(kind, name);
      if (config_.*kind.name == name) return;
      unchosen_[kind.key + " " + config_.*kind.name] = config_.*kind.settings;
      Settings settings = unchosen_[kind.key + " " + name];
      if (kind.keeps_shared || (kind.in_turn && have_a_name(config_.*kind.name, name)))
        for (const auto& [key, own] : config_.*kind.settings)
          if (find_setting(declared, key) != nullptr) settings[key] = own;
      config_.*kind.name = name;
      config_.*kind.settings = settings;
    } catch (const Error& error) {
      refuse(layer, kind.key, error.what());
    }
  }

  // Whether an attention is in both lists.
  static bool have_a_name(const std::string& one, const std::string& other) {
    for (const AttentionOptions& a : parse_attentions(one))
      for (const AttentionOptions& b : parse_attentions(other))
        if (a.name == b.name) return true;
    return false;
  }

  void replace_other_names(const MechanismKind& kind, const SettingLayer& layer) {
    try {
      linea::replace_other_names(declared_by(kind, config_.*kind.name), layer.values,
                                 config_.*kind.settings);
    } catch (const Error& error) {
      refuse(layer, "", error.what());
    }
  }

  // Settings of earlier layers whose condition (Setting::only_with) this layer ends.
  void drop_conditional(const MechanismKind& kind, const SettingLayer& layer,
                        const Settings& before) {
    Settings& own = config_.*kind.settings;
    std::vector<AttentionOptions> items;
    if (kind.in_turn) items = parse_attentions(config_.*kind.name);
    if (items.size() > 1) {
      for (const auto& [key, value] : take_shared(items, own))
        if (!layer.values.has(key)) own.erase(key);
      return;
    }
    for (const Setting& setting : declared_by(kind, config_.*kind.name))
      if (!layer.values.has(setting.key) && applies(setting, before) && !applies(setting, own))
        own.erase(setting.key);
  }

  static bool is_deleted(const std::string& key, const SettingValue& value) {
    if (!deleted_settings().has(key)) return false;
    require(value == deleted_settings().at(key),
            "`{}` is {}, but this version has no such setting: leave it out; what was trained with "
            "it needs the version that trained it",
            key, to_string(value));
    return true;
  }

  static SettingValue checked(const Setting& setting, const SettingValue& given, bool as_text) {
    if (as_text) return parse_value(setting, std::get<std::string>(given));
    SettingValue value = given;
    check_value(setting, value);
    return value;
  }

  void assign(const std::string& key, const SettingValue& value, bool as_text) {
    for (const MechanismKind& kind : kinds_)
      if (kind.key == key) return;  // chosen already
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
    for (const MechanismKind& kind : kinds_) {
      const Declarations declared = declared_by(kind, config_.*kind.name);
      if (const Setting* setting = find_setting(declared, key)) {
        Settings& own = config_.*kind.settings;
        own[key] = checked(*setting, value, as_text);
        // On the command line a name for a value acts at its place: the later of two wins.
        if (as_text) linea::replace_other_names(declared, {{key, own.at(key)}}, own);
        return;
      }
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

}  // namespace

Declarations declared_by(const MechanismKind& kind, const std::string& name) {
  if (kind.in_turn) return declared_by(parse_attentions(name));
  if (name.empty()) return {};
  return find_named(kind.key, kind.mechanisms, name).settings;
}

RunConfig resolve(const std::vector<SettingLayer>& layers) {
  Resolver resolver(layers);
  for (const SettingLayer& layer : layers) resolver.apply(layer);
  RunConfig config = resolver.config();
  if (config.dtype == "auto")  // what reversible blocks restore would lose digits in bf16
    config.dtype = config.reversible ? "fp32" : chosen_dtype(config.dtype, config.device);
  return config;
}

}  // namespace linea
