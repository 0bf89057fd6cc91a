// Files of settings, as TOML: one `key = value` a setting. The library that reads them is compiled
// here alone. Some of its assertions fail on texts that the lines after them refuse.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_HEADER_ONLY 0
#define TOML_IMPLEMENTATION
#define TOML_MAX_NESTED_VALUES 8
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "data/one_line.h"
#include "data/utf8.h"
#include "train/config.h"

namespace linea {
namespace {

constexpr size_t kMaxText = size_t{1} << 16;
constexpr std::ptrdiff_t kMaxDots = 64;

// Each dot of a key is a table inside another, and tables are taken down by recursion.
void refuse_deep_text(const std::string& text, const std::string& source) {
  if (text.size() > kMaxText)
    fail(ErrorKind::usage, "{} has {} bytes; settings have at most {}", source, text.size(),
         kMaxText);
  std::istringstream lines(text);
  int64_t number = 1;
  for (std::string line; std::getline(lines, line); ++number)
    if (std::count(line.begin(), line.end(), '.') > kMaxDots)
      fail(ErrorKind::usage, "{}:{}: more than {} dots in a line; settings have no sections",
           source, number, kMaxDots);
}

// The beginning of a line, counted from 1.
std::string line_text(const std::string& text, uint32_t number) {
  std::istringstream lines(text);
  std::string line;
  for (uint32_t i = 0; i < number && std::getline(lines, line); ++i) continue;
  return line.substr(0, 80);
}

SettingValue setting_value(const toml::node& node, const std::string& where,
                           const std::string& key) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* text = node.as_string()) return text->get();
  if (node.is_table())
    fail(ErrorKind::usage, "{}: settings have no sections; leave [{}] out", where, one_line(key));
  fail(ErrorKind::usage, "{}: the value of '{}' is neither a number, a text nor true or false",
       where, one_line(key));
}

// As a basic string of TOML, which has escapes for all that could end it.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", c);
    } else if (is_control(c)) {
      result += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string line_of(const std::string& key, const SettingValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && first_non_utf8(*text) != text->size())
    fail(ErrorKind::usage,
         "`{}` is '{}', which is not UTF-8: config.toml cannot hold it; rename it", key,
         one_line(*text));
  return fmt::format("{} = {}\n", key, text != nullptr ? quoted(*text) : to_string(value));
}

}  // namespace

SettingLayer parse_toml(const std::string& text, const std::string& source) {
  refuse_deep_text(text, source);
  SettingLayer layer{{}, source, {}};
  try {
    const toml::table table = toml::parse(text);
    for (const auto& [name, node] : table) {
      const std::string key(name.str());
      layer.lines[key] = name.source().begin.line;
      layer.values[key] = setting_value(node, fmt::format("{}:{}", source, layer.lines[key]), key);
    }
  } catch (const toml::parse_error& error) {
    const uint32_t line = error.source().begin.line;
    fail(ErrorKind::usage, "{}:{}: '{}' is not TOML: {}", source, line,
         one_line(line_text(text, line)), one_line(std::string(error.description())));
  }
  return layer;
}

std::string to_toml(const RunConfig& config) {
  std::string text, group_before;
  for (const auto& [setting, group, value] : applied_settings(config)) {
    if (group != group_before) text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", group);
    group_before = group;
    if (setting.key != "task" || !config.task.empty()) text += line_of(setting.key, value);
  }
  try {
    static_cast<void>(toml::parse(text));
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::usage, "config.toml cannot hold a setting's text: {}",
         one_line(std::string(error.description())));
  }
  return text;
}

}  // namespace linea
