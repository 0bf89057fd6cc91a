#include "cli/setting_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>

#include "cli/flags.h"
#include "tensor/error.h"

namespace linea {
namespace {

// "feature map (elu, relu, exp; default elu)"; the choices of a key with one owner are in its flag.
std::string help_of(const Setting& setting, bool shared) {
  std::vector<std::string> notes;
  if (shared && !setting.choices.empty())
    notes.push_back(fmt::format("{}", fmt::join(setting.choices, ", ")));
  const std::string initial = to_string(setting.initial);
  if (!initial.empty()) notes.push_back("default " + initial);
  return notes.empty() ? setting.help
                       : fmt::format("{} ({})", setting.help, fmt::join(notes, "; "));
}

std::vector<std::string> owners_of(const std::vector<Mechanism>& mechanisms,
                                   const std::string& key) {
  std::vector<std::string> owners;
  for (const Mechanism& mechanism : mechanisms)
    if (find_setting(mechanism.settings, key) != nullptr) owners.push_back(mechanism.name);
  return owners;
}

// Of all mechanisms, each once.
std::vector<std::string> choices_of(const std::vector<Mechanism>& mechanisms,
                                    const std::string& key) {
  std::vector<std::string> result;
  for (const Mechanism& mechanism : mechanisms)
    if (const Setting* declared = find_setting(mechanism.settings, key))
      for (const std::string& choice : declared->choices)
        if (std::find(result.begin(), result.end(), choice) == result.end())
          result.push_back(choice);
  return result;
}

}  // namespace

std::vector<Mechanism> attention_mechanisms() {
  std::vector<Mechanism> result;
  for (const AttentionEntry& entry : attentions()) result.push_back({entry.name, entry.settings});
  return result;
}

void add_setting_flags(CLI::App& command, const std::string& kind,
                       const std::vector<Mechanism>& mechanisms, GivenTexts& given) {
  for (const Mechanism& mechanism : mechanisms)
    for (const Setting& setting : mechanism.settings) {
      const std::string key = setting.key, flag = "--" + flag_name(key);
      if (command.get_option_no_throw(flag) != nullptr) continue;
      const std::vector<std::string> owners = owners_of(mechanisms, key);
      std::string help;
      for (const Mechanism& owner : mechanisms)
        if (const Setting* declared = find_setting(owner.settings, key))
          help += fmt::format("{}{}{}", help.empty() ? "" : "\n",
                              owners.size() > 1 ? owner.name + ": " : "",
                              help_of(*declared, owners.size() > 1));
      CLI::Option* option =
          std::holds_alternative<bool>(setting.initial)
              ? command.add_flag_function(
                    flag + ",!--no-" + flag.substr(2),
                    [&given, key](int64_t count) { given[key] = count > 0 ? "true" : "false"; },
                    help)
              : command.add_option_function<std::string>(
                    flag, [&given, key](const std::string& text) { given[key] = text; }, help);
      const std::vector<std::string> choices = choices_of(mechanisms, key);
      if (!choices.empty()) set_choices(command, flag, choices);
      option->group(fmt::format("Settings of {} {}", kind, fmt::join(owners, ", ")));
    }
}

Settings settings_for(const std::vector<Mechanism>& mechanisms, const std::string& name,
                      const GivenTexts& given) {
  Settings result;
  for (const Mechanism& mechanism : mechanisms)
    if (mechanism.name == name)
      for (const Setting& setting : mechanism.settings)
        if (const auto found = given.find(setting.key); found != given.end())
          result[setting.key] = parse_value(setting, found->second);
  return result;
}

void refuse_foreign_settings(const std::string& kind, const std::vector<Mechanism>& mechanisms,
                             const std::vector<std::string>& names, const GivenTexts& given) {
  for (const auto& [key, text] : given) {
    const std::vector<std::string> owners = owners_of(mechanisms, key);
    const bool meant = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return std::find(owners.begin(), owners.end(), name) != owners.end();
    });
    if (!meant && !owners.empty())
      fail(ErrorKind::usage, "`{}` is a setting of {} {}, not of {}; leave it out", key, kind,
           fmt::join(owners, ", "), fmt::join(names, ", "));
  }
}

}  // namespace linea
