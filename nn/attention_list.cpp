#include "nn/attention_list.h"

#include <algorithm>

namespace linea {
namespace {

// The parts of `text` between separators outside of braces.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    require(depth >= 0, "'{}' has a '}}' without a '{{' before it", text);
    if (c == separator && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  require(depth == 0, "'{}' has a '{{' without a '}}' after it", text);
  return parts;
}

AttentionOptions parse_item(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  require(!parts[0].empty(), "'{}' has no attention; write {}", text,
          fmt::join(attention_names(), ", "));
  AttentionOptions item{parts[0]};
  const Declarations& declared = find_attention(item.name).settings;
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    require(equals != std::string::npos, "'{}' gives '{}' no value; write {}=VALUE", text, parts[i],
            parts[i]);
    std::string key = parts[i].substr(0, equals), value = parts[i].substr(equals + 1);
    std::replace(key.begin(), key.end(), '-', '_');
    const Setting* setting = find_setting(declared, key);
    require(setting != nullptr, "attention {} has no setting `{}`", item.name, key);
    require(!item.settings.has(key), "'{}' gives `{}` twice", text, key);
    if (value.size() > 1 && value.front() == '{' && value.back() == '}')
      value = value.substr(1, value.size() - 2);
    item.settings[key] = parse_value(*setting, value);
  }
  return item;
}

}  // namespace

std::vector<AttentionOptions> parse_attentions(const std::string& list) {
  std::vector<AttentionOptions> items;
  const std::vector<std::string> texts = split(list, '/');
  for (const std::string& text : texts) try {
      items.push_back(parse_item(text));
    } catch (const Error& error) {
      if (texts.size() == 1) throw;
      fail(ErrorKind::usage, "`attention`, item {} of {}: {}", items.size() + 1, texts.size(),
           error.what());
    }
  return items;
}

std::string attention_list(const std::vector<AttentionOptions>& items) {
  std::string list;
  for (const AttentionOptions& item : items) {
    list += (list.empty() ? "" : "/") + item.name;
    for (const auto& [key, value] : item.settings) {
      const std::string text = to_string(value);
      const bool braces = text.find_first_of("/:{}") != std::string::npos;
      list += fmt::format(":{}={}", flag_name(key), braces ? "{" + text + "}" : text);
    }
  }
  return list;
}

Declarations declared_by(const std::vector<AttentionOptions>& items) {
  Declarations all;
  for (const AttentionOptions& item : items)
    for (const Setting& setting : find_attention(item.name).settings)
      if (!item.settings.has(setting.key) && find_setting(all, setting.key) == nullptr)
        all.push_back(setting);
  return all;
}

Settings take_shared(std::vector<AttentionOptions>& items, const Settings& shared) {
  Settings unused = shared;
  for (AttentionOptions& item : items) {
    Settings known;
    for (const Setting& setting : find_attention(item.name).settings) {
      const bool own = item.settings.has(setting.key), has_meaning = applies(setting, known);
      if (!own && shared.has(setting.key)) {
        const SettingValue& value = shared.at(setting.key);
        // Among several items, one to which it does not apply goes without it.
        const bool taken = items.size() == 1 || value == setting.initial || has_meaning;
        if (taken) unused.erase(setting.key);
        if (taken) item.settings[setting.key] = value;
      }
      if (has_meaning)
        known[setting.key] =
            item.settings.has(setting.key) ? item.settings.at(setting.key) : setting.initial;
    }
  }
  return unused;
}

std::vector<AttentionOptions> with_shared(std::vector<AttentionOptions> items,
                                          const Settings& shared) {
  for (const auto& [key, value] : take_shared(items, shared))
    fail(ErrorKind::usage, "`{}` {} applies to no attention of {}; leave it out", key,
         to_string(value), attention_list(items));
  return items;
}

Settings complete_shared(std::vector<AttentionOptions>& items, const Settings& shared) {
  Settings result;
  std::vector<std::string> differing;
  const std::vector<AttentionOptions> all = with_shared(items, shared);
  for (size_t i = 0; i < items.size(); ++i)
    for (const auto& [key, value] : complete_settings(all[i])) {
      if (items[i].settings.has(key)) continue;
      if (result.has(key) && result.at(key) != value) differing.push_back(key);
      result[key] = value;
    }
  for (const std::string& key : differing) {
    result.erase(key);
    for (size_t i = 0; i < items.size(); ++i)
      if (const Settings values = complete_settings(all[i]); values.has(key))
        items[i].settings[key] = values.at(key);
  }
  return result;
}

std::string label_of(const std::vector<AttentionOptions>& items) {
  std::vector<std::string> labels;
  for (size_t first = 0, next = 0; first < items.size(); first = next) {
    const std::string label = label_of(items[first]);
    while (next < items.size() && label_of(items[next]) == label) ++next;
    labels.push_back(next - first > 1 ? fmt::format("{} x {}", next - first, label) : label);
  }
  return fmt::format("{}", fmt::join(labels, " / "));
}

}  // namespace linea
