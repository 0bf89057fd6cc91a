#include "tensor/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tensor/error.h"

namespace linea {
namespace {

[[noreturn]] void refuse(const Setting& setting, const SettingValue& value,
                         const std::string& rule) {
  const bool quoted = std::holds_alternative<std::string>(value);
  fail(ErrorKind::usage, "`{}` is {}{}{}; {}", setting.key, quoted ? "'" : "", to_string(value),
       quoted ? "'" : "", rule);
}

// What a value of another type should have been.
std::string type_rule(const Setting& setting) {
  if (std::holds_alternative<bool>(setting.initial)) return "it must be true or false";
  if (std::holds_alternative<int64_t>(setting.initial)) return "it must be a whole number";
  if (std::holds_alternative<double>(setting.initial)) return "it must be a number";
  return "it must be a text";
}

void check_range(const Setting& setting, const SettingValue& value, double number) {
  const bool low = setting.min_excluded ? !(number > setting.min) : !(number >= setting.min);
  if (!low && number <= setting.max) return;
  const std::string least = setting.min_excluded ? fmt::format("above {}", setting.min)
                                                 : fmt::format("at least {}", setting.min);
  if (low && !std::isnan(number) && setting.max >= kMaxSize)
    refuse(setting, value, "it must be " + least);
  if (std::isinf(setting.max)) refuse(setting, value, "it must be finite and " + least);
  if (setting.max == kMaxSize)
    refuse(setting, value, fmt::format("it must be below {}", int64_t{1} << 31));
  refuse(setting, value,
         setting.min_excluded
             ? fmt::format("it must be above {} and at most {}", setting.min, setting.max)
             : fmt::format("it must be in {}..{}", setting.min, setting.max));
}

template <typename T>
const T& typed(const Settings& settings, const std::string& key) {
  const T* value = std::get_if<T>(&settings.at(key));
  require(value != nullptr, "the setting `{}` is of another type than asked for", key);
  return *value;
}

template <typename T>
T parse_number(const Setting& setting, const std::string& text) {
  T value{};
  const char* first = text.data() + (text.size() > 1 && text[0] == '+' ? 1 : 0);
  const auto [end, problem] = std::from_chars(first, text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    refuse(setting, text, type_rule(setting));
  return value;
}

}  // namespace

namespace declare {

Setting flag(const std::string& key, const std::string& help) { return {key, false, help}; }

Setting integer(const std::string& key, int64_t initial, Range range, const std::string& help) {
  return {key, initial, help, range.min, range.max};
}

Setting real(const std::string& key, double initial, Range range, const std::string& help) {
  return {key, initial, help, range.min, range.max == kMaxSize ? INFINITY : range.max};
}

Setting positive(const std::string& key, double initial, const std::string& help) {
  Setting setting = real(key, initial, at_least(0), help);
  setting.min_excluded = true;
  return setting;
}

Setting choice(const std::string& key, const std::string& initial,
               const std::vector<std::string>& choices, const std::string& help) {
  Setting setting{key, initial, help};
  setting.choices = choices;
  return setting;
}

Setting text(const std::string& key, const std::string& initial, const std::string& help) {
  return {key, initial, help};
}

Setting labeled(InLabel in_label, Setting setting) {
  setting.in_label = in_label;
  return setting;
}

Setting only_with(const std::string& key, const std::string& value, Setting setting) {
  setting.only_with = {key, value};
  return setting;
}

Setting defining(const std::string& tensor, Setting setting) {
  setting.defines = tensor;
  return setting;
}

}  // namespace declare

const SettingValue& Settings::at(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) fail(ErrorKind::usage, "there is no setting `{}` here", key);
  return found->second;
}

bool Settings::flag(const std::string& key) const { return typed<bool>(*this, key); }
int64_t Settings::integer(const std::string& key) const { return typed<int64_t>(*this, key); }
double Settings::real(const std::string& key) const { return typed<double>(*this, key); }
const std::string& Settings::text(const std::string& key) const {
  return typed<std::string>(*this, key);
}

const Setting* find_setting(const Declarations& declared, const std::string& key) {
  const auto found = std::find_if(declared.begin(), declared.end(),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == declared.end() ? nullptr : &*found;
}

bool applies(const Setting& setting, const Settings& complete) {
  const auto& [key, value] = setting.only_with;
  return key.empty() || (complete.has(key) && to_string(complete.at(key)) == value);
}

std::string to_string(const SettingValue& value) {
  return std::visit([](const auto& x) { return fmt::format("{}", x); }, value);
}

SettingValue parse_value(const Setting& setting, const std::string& text) {
  if (std::holds_alternative<std::string>(setting.initial)) return text;
  if (std::holds_alternative<int64_t>(setting.initial)) return parse_number<int64_t>(setting, text);
  if (std::holds_alternative<double>(setting.initial)) return parse_number<double>(setting, text);
  if (text != "true" && text != "false") refuse(setting, text, type_rule(setting));
  return text == "true";
}

void check_value(const Setting& setting, SettingValue& value) {
  if (std::holds_alternative<double>(setting.initial) && std::holds_alternative<int64_t>(value))
    value = static_cast<double>(std::get<int64_t>(value));
  if (value.index() != setting.initial.index()) refuse(setting, value, type_rule(setting));
  if (const auto* whole = std::get_if<int64_t>(&value))
    check_range(setting, value, static_cast<double>(*whole));
  if (const auto* number = std::get_if<double>(&value)) {
    if (std::isinf(*number)) refuse(setting, value, "it must be finite");
    check_range(setting, value, *number);
  }
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && !setting.choices.empty() &&
      std::find(setting.choices.begin(), setting.choices.end(), *text) == setting.choices.end())
    refuse(setting, value, fmt::format("choose one of {}", fmt::join(setting.choices, ", ")));
}

Settings complete(const Declarations& declared, const Settings& given, const std::string& owner) {
  for (const auto& [key, value] : given)
    if (find_setting(declared, key) == nullptr)
      fail(ErrorKind::usage, "{} has no setting `{}`", owner, key);
  Settings result;
  for (const Setting& setting : declared) {
    const bool is_given = given.has(setting.key);
    if (!applies(setting, result)) {
      if (is_given && given.at(setting.key) != setting.initial)
        fail(ErrorKind::usage, "`{}` has a meaning only with `{}` {}", setting.key,
             setting.only_with.first, setting.only_with.second);
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
