// Settings: what a user may choose of a mechanism (an attention, a task, an optimizer). The
// mechanism declares each setting once, in the file that uses it; flags, TOML keys, help texts,
// config.toml, labels and range checks follow from the declaration.
//
// Error texts name a setting in backquotes, as in "`features` is 0": the command line turns that
// into its flag, --features.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace linea {

using SettingValue = std::variant<bool, int64_t, double, std::string>;

// Whether a label ("linear --feature elu") shows a setting.
enum class InLabel { never, if_changed, always };

// Who may give a setting of a trained model another value.
enum class MayChange {
  on_resume,     // --resume, and --init-from
  by_init_from,  // --init-from, which starts a new run
  never          // the weights would not fit
};

struct Setting {
  std::string key;       // "weight_decay"; the flag is --weight-decay
  SettingValue initial;  // the default, which also gives the type
  std::string help;      // one line
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  std::vector<std::string> choices{};  // of a text; empty: any text
  bool is_list = false;                // the text lists choices; who reads it checks it
  InLabel in_label = InLabel::never;
  // The setting has a meaning only where another, earlier one has one of these values; empty key:
  // always.
  std::pair<std::string, std::vector<std::string>> only_with{};
  // Tensors with this word in their names depend on the setting, so that --init-from leaves them
  // out where it differs.
  std::string defines{};
  // A flag that is another name for a value of another setting, {"tokenizer", "bytes"}: true gives
  // it that value, false its default where it has that value. It has no value of its own.
  std::pair<std::string, std::string> stands_for{};
  bool affects_training = true;  // --resume reports a changed value
  MayChange may_change = MayChange::on_resume;
};

// Bounds of a number, both included; sizes are multiplied, so that none may come near 2^63.
struct Range {
  double min, max;
};
constexpr double kMaxSize = 2147483647.0;
constexpr Range at_least(double min) { return {min, kMaxSize}; }
constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;  // the largest below 1

// Builders of declarations.
namespace declare {
inline Setting flag(const std::string& key, const std::string& help) { return {key, false, help}; }
inline Setting text(const std::string& key, const std::string& initial, const std::string& help) {
  return {key, initial, help};
}
inline Setting integer(const std::string& key, int64_t initial, Range range,
                       const std::string& help) {
  return {key, initial, help, range.min, range.max};
}
inline Setting real(const std::string& key, double initial, Range range, const std::string& help) {
  const double infinity = std::numeric_limits<double>::infinity();
  return {key, initial, help, range.min, range.max == kMaxSize ? infinity : range.max};
}
inline Setting positive(const std::string& key, double initial, const std::string& help) {
  return {.key = key, .initial = initial, .help = help, .min = 0, .min_excluded = true};
}
inline Setting choice(const std::string& key, const std::string& initial,
                      const std::vector<std::string>& choices, const std::string& help) {
  return {.key = key, .initial = initial, .help = help, .choices = choices};
}
inline Setting list_of(const std::string& key, const std::string& initial,
                       const std::vector<std::string>& choices, const std::string& help) {
  return {.key = key, .initial = initial, .help = help, .choices = choices, .is_list = true};
}
// The rest of a declaration.
inline Setting only_with(const std::string& key, const std::vector<std::string>& values,
                         Setting setting) {
  setting.only_with = {key, values};
  return setting;
}
inline Setting defining(const std::string& tensor, Setting setting) {
  setting.defines = tensor;
  return setting;
}
inline Setting changing(MayChange may_change, Setting setting) {
  setting.may_change = may_change;
  return setting;
}
inline Setting standing_for(const std::string& key, const std::string& value, Setting setting) {
  setting.stands_for = {key, value};
  return setting;
}
// A setting of the model, not of its training: only --init-from may change it.
inline Setting of_model(Setting setting) {
  return changing(MayChange::by_init_from, std::move(setting));
}
// One that a label shows, always or where it is not the default.
inline Setting labeled(Setting setting, InLabel in_label = InLabel::always) {
  setting.in_label = in_label;
  return of_model(std::move(setting));
}
inline Setting labeled_if_changed(Setting setting) {
  return labeled(std::move(setting), InLabel::if_changed);
}
}  // namespace declare

using Declarations = std::vector<Setting>;

// A mechanism of a kind (attention, task, optimizer) and what it declares.
struct Mechanism {
  std::string name;
  Declarations settings;
};

// The one of this name. Error: ErrorKind::usage naming those that exist.
template <typename Named>
const Named& find_named(const std::string& kind, const std::vector<Named>& all,
                        const std::string& name) {
  std::vector<std::string> names;
  for (const Named& one : all) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  fail(ErrorKind::usage, "there is no {} '{}'; choose one of {}", kind, name,
       fmt::join(names, ", "));
}

// The index of a value among the choices. Error: ErrorKind::usage, another value, with the choices.
size_t check_choice(const std::string& key, const std::string& value,
                    const std::vector<std::string>& choices);

// Values by key. As given by a user they may be few; `complete` adds the defaults.
class Settings {
 public:
  Settings() = default;
  Settings(std::initializer_list<std::pair<const std::string, SettingValue>> values)
      : values_(values) {}

  SettingValue& operator[](const std::string& key) { return values_[key]; }
  bool has(const std::string& key) const { return values_.count(key) != 0; }
  void erase(const std::string& key) { values_.erase(key); }
  const SettingValue& at(const std::string& key) const;
  // The value by its type. Errors: a key that is not there, or of another type.
  bool flag(const std::string& key) const { return get<bool>(key); }
  int64_t integer(const std::string& key) const { return get<int64_t>(key); }
  double real(const std::string& key) const { return get<double>(key); }
  const std::string& text(const std::string& key) const { return get<std::string>(key); }

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  bool operator==(const Settings&) const = default;

 private:
  template <typename T>
  const T& get(const std::string& key) const {
    const T* value = std::get_if<T>(&at(key));
    require(value != nullptr, "the setting `{}` is of another type than asked for", key);
    return *value;
  }

  std::map<std::string, SettingValue> values_;
};

const Setting* find_setting(const Declarations& declared, const std::string& key);
bool applies(const Setting& setting, const Settings& complete);

// "trig", "0.5", "true".
std::string to_string(const SettingValue& value);
// The number, int64_t or double, that a text holds. Error: ErrorKind::usage, with key and text.
template <typename T>
T parse_number(const std::string& key, const std::string& text);
// The value that a text holds. Error: ErrorKind::usage, those of parse_number and check_value, with
// the number as it is in the text.
SettingValue parse_value(const Setting& setting, const std::string& text);
// Error: ErrorKind::usage, a value of another type (but for a whole number where a real one is
// wanted, which is converted), out of range or not among the choices. `typed`: a number as the user
// wrote it, empty where only its value is known.
void check_value(const Setting& setting, SettingValue& value, const std::string& typed = "");

// Replaces values of flags that stand for a value of another setting, as in `given`, a part of
// `values`. Error: ErrorKind::usage, a flag and another value of that setting in `given`.
void replace_other_names(const Declarations& declared, const Settings& given, Settings& values);

// The values of all settings that apply: those given, and the defaults. `owner` names the mechanism
// in errors ("attention linear"). Errors: ErrorKind::usage, a key that is not declared, and those
// of check_value.
Settings complete(const Declarations& declared, const Settings& given, const std::string& owner);

// " --feature elu --rule gated"
std::string label_of(const Declarations& declared, const Settings& complete);

// "min_lr" -> "min-lr"
std::string flag_name(std::string key);

}  // namespace linea
