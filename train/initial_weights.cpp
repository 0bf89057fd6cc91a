// --init-from: weights of another run as the start of a new one.
#include <algorithm>

#include "train/checkpoint.h"
#include "train/model_file.h"

namespace linea {
namespace {

// Substrings of the names of tensors that have another meaning under the settings of the other
// attention, such as the gate of another update rule.
std::vector<std::string> redefined_tensors(const RunConfig& source, const AttentionOptions& now) {
  const AttentionOptions before = attention_options(source);
  const Settings was = complete_settings(before), is = complete_settings(now);
  std::vector<std::string> result;
  for (const std::string& name : {before.name, now.name})
    for (const Setting& setting : find_attention(name).settings)
      if (!setting.defines.empty() && (!was.has(setting.key) || !is.has(setting.key) ||
                                       was.at(setting.key) != is.at(setting.key)))
        result.push_back(setting.defines);
  return result;
}

bool contains_any(const std::string& name, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

}  // namespace

void load_initial_weights(const std::filesystem::path& run, Model& model,
                          const std::string& vocabulary, const Note& note) {
  const std::string path = find_model_file(run).string();
  const SafetensorsFile file = open_model_file(path);
  check_vocabulary(file, path, vocabulary,
                   "train on a text of the same tokens, or leave out `init_from`");
  const RunConfig config = config_from_toml(metadata_value(file, path, "config"), path);
  const std::string windows = image_windows_note(file, path, config);
  if (!windows.empty()) note(windows);
  const bool same_attention = model.config().attention.name == config.attention;
  const std::vector<std::string> redefined = redefined_tensors(config, model.config().attention);
  const auto fits = [&](const NamedTensor& target) {
    return file.contains(target.name) &&
           file.entry(target.name).shape == target.tensor.shape().sizes();
  };
  for (const Parameter& parameter : model.parameters()) {
    const NamedTensor target{parameter.name, parameter.var.value()};
    if (contains_any(target.name, redefined)) continue;
    const bool of_gate = target.name.find(".gate.") != std::string::npos;
    const bool of_attention = target.name.find(".attention.") != std::string::npos || of_gate;
    if (!of_attention || (same_attention ? file.contains(target.name) : fits(target)))
      load_tensor(file, path, target);
  }
  if (same_attention) {
    for (const Buffer& buffer : model.buffers()) {
      if (contains_any(buffer.name, redefined)) continue;
      if (fits({buffer.name, buffer.tensor})) load_tensor(file, path, {buffer.name, buffer.tensor});
    }
    model.buffers_changed();
  }
  if (find_attention(config.attention).is_softmax) model.scale_queries_from_softmax();
}

}  // namespace linea
