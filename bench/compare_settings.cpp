// What the request of a comparison comes to: seeds, lengths and the settings of each run.
#include <algorithm>

#include "bench/compare.h"
#include "nn/attention_list.h"
#include "train/format.h"

namespace linea::bench {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMinLength = 2, kMaxLength = int64_t{1} << 20;

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

// The attention, with the sizes of a preset for what it does not set itself. A default of 0 asks for no
// window, or for what follows from the length: it stays.
std::string sized(const std::string& attention, const Settings& sizes) {
  std::vector<AttentionOptions> items = parse_attentions(attention);
  for (AttentionOptions& item : items)
    for (const auto& [key, value] : sizes) {
      const Setting* setting = find_setting(find_attention(item.name).settings, key);
      if (setting == nullptr || item.settings.has(key) || to_string(setting->initial) == "0")
        continue;
      item.settings[key] = value;
    }
  return attention_list(items);
}

}  // namespace

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

std::vector<int64_t> lengths_of(const std::string& list) {
  std::vector<int64_t> lengths;
  for (const std::string& item : split_list(list)) {
    lengths.push_back(parse_number<int64_t>("lengths", item));
    require(lengths.back() >= kMinLength && lengths.back() <= kMaxLength,
            "`lengths` has {}; choose from {} to {}", lengths.back(), kMinLength, kMaxLength);
  }
  require(!lengths.empty(), "`lengths` is empty: name one at least");
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

RunConfig run_config(const CompareRequest& request, const std::string& task,
                     const std::string& attention, int64_t seed) {
  // The mechanism of a preset and its settings are none of the comparison's.
  SettingLayer base = parse_toml(task_settings(task), "task " + task);
  for (const Setting& setting : declared_by(parse_attentions(
           base.values.has("attention") ? base.values.text("attention") : "linear")))
    base.values.erase(setting.key);
  std::vector<SettingLayer> layers = {base};
  std::string own = attention;
  if (const ComparePreset* preset = find_compare_preset(request.preset)) {
    layers.push_back(parse_toml(preset->settings, "preset " + preset->name));
    own = sized(attention, parse_toml(preset->sizes, "preset " + preset->name).values);
  }
  layers.push_back({request.given, "", {}});
  layers.push_back({{{"attention", own}, {"seed", std::to_string(seed)}}, "", {}});
  RunConfig config = resolve(layers);
  if (find_setting(find_task(config.task).settings, "data") != nullptr && !request.data.empty())
    config.task_settings["data"] = data_path(request.data, config.task);
  config.sample_every = 0;
  check_settings(config);
  return config;
}

}  // namespace linea::bench
