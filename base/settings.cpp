#include "base/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "base/system.h"

namespace linea {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& shown,
                         const std::string& rule) {
  fail(ErrorKind::usage, "`{}` is {}; {}", key, shown, rule);
}

// The expected type, for the error of a value of another type.
std::string type_rule(const Setting& setting) {
  const char* const types[] = {"true or false", "a whole number", "a number", "a text"};
  return fmt::format("it must be {}", types[setting.initial.index()]);
}

void check_range(const Setting& setting, double number, const std::string& shown) {
  const bool low = setting.min_excluded ? !(number > setting.min) : !(number >= setting.min);
  if (!low && number <= setting.max) return;
  const std::string least = setting.min_excluded ? fmt::format("above {}", setting.min)
                                                 : fmt::format("at least {}", setting.min);
  std::string rule = fmt::format("in {}..{}", setting.min, setting.max);
  if (low && !std::isnan(number) && setting.max >= kMaxSize) {
    rule = least;
  } else if (std::isinf(setting.max)) {
    rule = "finite and " + least;
  } else if (setting.max == kMaxSize) {
    rule = fmt::format("below {}", int64_t{1} << 31);
  } else if (setting.max == kBelowOne) {
    rule = fmt::format("in [{}, 1)", setting.min);
  } else if (setting.min_excluded) {
    rule = fmt::format("above {} and at most {}", setting.min, setting.max);
  }
  refuse(setting.key, shown, "it must be " + rule);
}

}  // namespace

size_t check_choice(const std::string& key, const std::string& value,
                    const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found == choices.end())
    refuse(key, fmt::format("'{}'", value),
           fmt::format("choose one of {}", fmt::join(choices, ", ")));
  return static_cast<size_t>(found - choices.begin());
}

const SettingValue& Settings::at(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) fail(ErrorKind::usage, "there is no setting `{}` here", key);
  return found->second;
}

const Setting* find_setting(const Declarations& declared, const std::string& key) {
  const auto found = std::find_if(declared.begin(), declared.end(),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == declared.end() ? nullptr : &*found;
}

bool applies(const Setting& setting, const Settings& complete) {
  const auto& [key, values] = setting.only_with;
  return key.empty() ||
         (complete.has(key) &&
          std::find(values.begin(), values.end(), to_string(complete.at(key))) != values.end());
}

std::string to_string(const SettingValue& value) {
  return std::visit([](const auto& x) { return fmt::format("{}", x); }, value);
}

template <typename T>
T parse_number(const std::string& key, const std::string& text) {
  constexpr bool kWhole = std::is_integral_v<T>;
  T value{};
  const char *const first = text.data() + (text.size() > 1 && text[0] == '+' ? 1 : 0),
                    *const last = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (kWhole)
    read = std::from_chars(first, last, value);
  else
    read = read_double(first, last, value);
  if (read.ptr != last || read.ec == std::errc::invalid_argument)
    refuse(key, fmt::format("'{}'", text),
           kWhole ? "it must be a whole number" : "it must be a number");
  if (read.ec == std::errc::result_out_of_range)
    refuse(key, text,
           kWhole ? "it must be at least -2^63 and below 2^63"
                  : "it must be 0, or of a size from 1e-307 to 1e308");
  return value;
}
template int64_t parse_number(const std::string&, const std::string&);
template double parse_number(const std::string&, const std::string&);

void check_value(const Setting& setting, SettingValue& value, const std::string& typed) {
  const bool is_text = std::holds_alternative<std::string>(value);
  const std::string shown = is_text         ? fmt::format("'{}'", std::get<std::string>(value))
                            : typed.empty() ? to_string(value)
                                            : typed;
  if (std::holds_alternative<double>(setting.initial) && std::holds_alternative<int64_t>(value))
    value = static_cast<double>(std::get<int64_t>(value));
  if (value.index() != setting.initial.index()) refuse(setting.key, shown, type_rule(setting));
  if (const auto* whole = std::get_if<int64_t>(&value))
    check_range(setting, static_cast<double>(*whole), shown);
  if (const auto* number = std::get_if<double>(&value)) {
    if (std::isinf(*number)) refuse(setting.key, shown, "it must be finite");
    check_range(setting, *number, shown);
  }
  if (is_text && !setting.choices.empty() && !setting.is_list)
    check_choice(setting.key, std::get<std::string>(value), setting.choices);
}

SettingValue parse_value(const Setting& setting, const std::string& text) {
  SettingValue value = text;
  if (std::holds_alternative<int64_t>(setting.initial)) {
    value = parse_number<int64_t>(setting.key, text);
  } else if (std::holds_alternative<double>(setting.initial)) {
    value = parse_number<double>(setting.key, text);
  } else if (std::holds_alternative<bool>(setting.initial) && (text == "true" || text == "false")) {
    value = text == "true";
  }
  check_value(setting, value, text);
  return value;
}

void replace_other_names(const Declarations& declared, const Settings& given, Settings& values) {
  for (const Setting& setting : declared) {
    const auto& [key, text] = setting.stands_for;
    if (key.empty() || !given.has(setting.key)) continue;
    const Setting* const other = find_setting(declared, key);
    const SettingValue value = other != nullptr ? parse_value(*other, text) : SettingValue(text);
    const bool on = values.flag(setting.key);
    values.erase(setting.key);
    const bool has_value = values.has(key) && values.at(key) == value;
    if (given.has(key) && on != has_value)
      fail(ErrorKind::usage, "`{0}` {1} and `{2}` {3} contradict each other; leave `{0}` out",
           setting.key, on, key, to_string(values.at(key)));
    if (on) values[key] = value;
    if (!on && has_value) values.erase(key);
  }
}

Settings complete(const Declarations& declared, const Settings& all, const std::string& owner) {
  Settings given = all;
  replace_other_names(declared, all, given);
  for (const auto& [key, value] : given)
    if (find_setting(declared, key) == nullptr)
      fail(ErrorKind::usage, "{} has no setting `{}`", owner, key);
  Settings result;
  for (const Setting& setting : declared) {
    if (!setting.stands_for.first.empty()) continue;
    const bool is_given = given.has(setting.key);
    if (!applies(setting, result)) {
      if (is_given && given.at(setting.key) != setting.initial)
        fail(ErrorKind::usage, "`{}` has a meaning only with `{}` {}", setting.key,
             setting.only_with.first, fmt::join(setting.only_with.second, " or "));
      continue;
    }
    SettingValue value = is_given ? given.at(setting.key) : setting.initial;
    check_value(setting, value);
    result[setting.key] = value;
  }
  return result;
}

std::string label_of(const Declarations& declared, const Settings& complete) {
  std::string label;
  for (const Setting& setting : declared) {
    if (setting.in_label == InLabel::never || !complete.has(setting.key)) continue;
    const SettingValue& value = complete.at(setting.key);
    if (setting.in_label == InLabel::always || value != setting.initial)
      label += fmt::format(" --{} {}", flag_name(setting.key), to_string(value));
  }
  return label;
}

std::string flag_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

}  // namespace linea
