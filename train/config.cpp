#include "train/config.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>

#include "data/one_line.h"
#include "train/machine.h"
#include "train/presets.h"
#include "train/signals.h"

namespace linea {
namespace {

std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

// Between the quotes from which CLI11's reader gives the text back (it ends a value at a # whatever
// the quotes).
std::string toml_string(const char* key, const std::string& text) {
  for (const char quote : {'"', '\''}) {
    if (text.find(quote) != std::string::npos) continue;
    if (quote == '"' && text.find('\\') != std::string::npos) continue;  // TOML has escapes there
    const std::string quoted = quote + text + quote;
    std::istringstream line("text = " + quoted);
    const std::vector<CLI::ConfigItem> items = CLI::ConfigTOML().from_config(line);
    if (items.size() == 1 && items[0].inputs == std::vector<std::string>{text}) return quoted;
  }
  fail(
      ErrorKind::usage,
      "--{} {}: config.toml cannot hold this text; choose a name without #, quotes and line breaks",
      flag_of(key), text);
}

// CLI11 reads an empty text as 0.
std::string refuse_empty(const std::string& text) {
  return text.empty() ? "a number is missing" : "";
}

std::string refuse_other_than_bool(const std::string& text) {
  return text == "true" || text == "false" ? "" : text + " is neither true nor false";
}

// CLI11 keeps every section with all those around it, so that a short line of dots would take all
// memory.
void refuse_deep_sections(const std::string& text, const std::string& source) {
  constexpr std::ptrdiff_t kMaxDots = 16;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos || line[start] == '#' || line[start] == ';') continue;
    const std::string key = line.substr(start, line.find('=') - start);
    if (std::count(key.begin(), key.end(), '.') > kMaxDots)
      fail(ErrorKind::usage, "{}: settings have no sections; leave {} out", source, one_line(key));
  }
}

// ", the nearest is 'dim'", or nothing where none is near.
std::string nearest_hint(const std::string& key, const std::vector<std::string>& known) {
  const std::string close = nearest(key, known);
  return close.empty() ? "; see linea train --help" : "; the nearest is '" + close + "'";
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::vector<std::string> setting_keys() {
  std::vector<std::string> keys;
  RunConfig config;
  visit_settings(config,
                 [&](const char* key, auto&, const char*, const char*) { keys.push_back(key); });
  return keys;
}

}  // namespace

void add_settings(CLI::App& app, RunConfig& config, const std::set<std::string>& only) {
  visit_settings(config, [&](const char* key, auto& member, const char* help, const char* group) {
    if (!only.empty() && only.count(key) == 0) return;
    const std::string flag = flag_of(key);
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, bool>) {
      app.add_flag("--" + flag + ",!--no-" + flag, member, help)
          ->group(group)
          ->default_str(member ? "true" : "false")
          ->check(refuse_other_than_bool);
    } else {
      CLI::Option* option =
          app.add_option("--" + flag, member, help)->group(group)->capture_default_str();
      if constexpr (!std::is_same_v<std::decay_t<decltype(member)>, std::string>)
        option->check(refuse_empty);
    }
  });
}

void apply_toml(CLI::App& app, const std::string& text, const std::string& source,
                const std::set<std::string>& fixed) {
  refuse_deep_sections(text, source);
  std::istringstream stream(text);
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(stream);
  } catch (const CLI::Error& error) {
    fail(ErrorKind::usage, "{} is not a TOML file of settings: {}", source, one_line(error.what()));
  }
  for (const CLI::ConfigItem& item : items) {
    const std::string key = item.fullname();
    if (fixed.count(key) != 0) continue;
    if (item.name == "++" || item.name == "--")  // CLI11's marks of a section's begin and end
      fail(ErrorKind::usage, "{}: settings have no sections; leave [{}] out", source,
           one_line(fmt::format("{}", fmt::join(item.parents, "."))));
    const std::vector<std::string> known = setting_keys();
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(ErrorKind::usage, "{}: there is no setting '{}'{}", source, one_line(key),
           nearest_hint(key, known));
    for (const std::string& value : item.inputs)
      if (std::any_of(value.begin(), value.end(), is_control))
        fail(ErrorKind::usage, "{}: the value '{}' of '{}' holds a control character; leave it out",
             source, one_line(value), key);
    CLI::Option* option = app.get_option("--" + flag_of(key));
    try {
      option->clear();
      for (const std::string& value : item.inputs) option->add_result(value);
      option->run_callback();
    } catch (const CLI::Error& error) {
      fail(ErrorKind::usage, "{}: the value '{}' of '{}' cannot be used: {}", source,
           one_line(fmt::format("{}", fmt::join(item.inputs, ", "))), key, one_line(error.what()));
    }
  }
}

void apply_toml(RunConfig& config, const std::string& text, const std::string& source) {
  CLI::App app;
  add_settings(app, config);
  apply_toml(app, text, source);
}

RunConfig config_from_toml(const std::string& text, const std::string& source) {
  RunConfig config;
  apply_toml(config, text, source);
  return config;
}

std::string to_toml(const RunConfig& config) {
  std::string text, group_before;
  visit_settings(config, [&](const char* key, const auto& member, const char*, const char* group) {
    using Member = std::decay_t<decltype(member)>;
    if (group_before != group) text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", group);
    group_before = group;
    if constexpr (std::is_same_v<Member, std::string>) {
      text += fmt::format("{} = {}\n", key, toml_string(key, member));
    } else {
      text += fmt::format("{} = {}\n", key, member);
    }
  });
  return text;
}

std::set<std::string> given_settings(const CLI::App& app) {
  std::set<std::string> given;
  for (const std::string& key : setting_keys()) {
    const CLI::Option* option = app.get_option_no_throw("--" + flag_of(key));
    if (option != nullptr && option->count() > 0) given.insert(key);
  }
  return given;
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

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  size_t min = word.size() / 2 + 2;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= min) continue;
    min = distance;
    best = candidate;
  }
  return best;
}

TaskOptions task_options(const RunConfig& config, const std::string& vocabulary) {
  TaskOptions options;
  options.task = config.task;
  options.data = config.data;
  options.length = config.length;
  options.size = config.size;
  options.levels = config.levels;
  options.channels = config.channels;
  options.flip = config.flip;
  options.bytes = config.bytes;
  options.class_token = config.class_token;
  options.associations = config.associations;
  options.repeat = config.repeat_keys;
  options.seed = static_cast<uint64_t>(config.seed);
  options.vocabulary = vocabulary;
  return options;
}

AttentionOptions attention_options(const RunConfig& config) {
  AttentionOptions options;
  options.name = config.attention;
  options.segment = config.segment;
  options.chunk = config.chunk;
  const Declarations& declared = find_attention(config.attention).settings;
  visit_settings(config, [&](const char* key, const auto& value, const char*, const char*) {
    const std::string name = key;
    const bool unset = name == "feature" && config.feature.empty();
    const bool asked = name == "feature" || (name == "rule" && config.rule != "sum");
    if (!unset && (find_setting(declared, key) != nullptr || asked)) options.settings[key] = value;
  });
  return options;
}

ModelConfig model_config(const RunConfig& config, const TaskShape& shape) {
  require(config.output_head != "logistics" || shape.levels > 0,
          "--output-head logistics draws levels of brightness, which the task {} does not have: "
          "leave it "
          "out, or choose a "
          "task of images",
          config.task);
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
  OptimizerConfig optimizer;
  optimizer.kind = config.optimizer;
  optimizer.beta1 = config.beta1;
  optimizer.beta2 = config.beta2;
  optimizer.weight_decay = config.weight_decay;
  optimizer.clip = config.clip;
  return optimizer;
}

void check_settings(const RunConfig& config, Work work) {
  require(!config.task.empty(), "say what to learn: --task {} (or a --preset: {})", task_names(),
          fmt::join(preset_names(), ", "));
  // Sizes are multiplied: larger ones would overflow before memory runs out.
  visit_settings(config, [](const char* key, const auto& value, const char*, const char*) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int64_t>) {
      const int64_t bound = std::string(key) == "seed" ? INT64_MAX : int64_t{1} << 31;
      require(value < bound, "--{} is {}; it must be below {}", flag_of(key), value, bound);
    }
  });
  const auto at_least = [](const char* key, int64_t value, int64_t min) {
    require(value >= min, "--{} is {}; it must be at least {}", key, value, min);
  };
  at_least("batch", config.batch, 1);
  at_least("accumulate", config.accumulate, 1);
  at_least("steps", config.steps, 1);
  at_least("warmup", config.warmup, 0);
  at_least("seed", config.seed, 0);
  at_least("eval-every", config.eval_every, 0);
  at_least("save-every", config.save_every, 0);
  at_least("sample-every", config.sample_every, 0);
  at_least("keep-last", config.keep_last, 0);
  at_least("keep-every", config.keep_every, 0);
  at_least("threads", config.threads, 0);
  at_least("segment", config.segment, 0);
  at_least("chunk", config.chunk, 0);
  require(config.lr > 0 && config.min_lr >= 0 && std::isfinite(config.lr) &&
              std::isfinite(config.min_lr),
          "--lr {} must be above 0, --min-lr {} at least 0, both finite", config.lr, config.min_lr);
  require(config.spike_guard == 0 || config.spike_guard > 1,
          "--spike-guard is {}; it must be above 1, or 0 for none", config.spike_guard);
  parse_duration(config.max_time);
  check_machine(config.device, config.dtype, work);
}

}  // namespace linea
