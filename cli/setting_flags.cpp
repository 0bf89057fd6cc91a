#include "cli/setting_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "cli/flags.h"
#include "nn/attention_list.h"

namespace linea {
namespace {

// One mechanism that declares a flag.
struct Owner {
  std::string kind, name;
  Setting setting;
};
using OwnersByFlag = std::map<std::string, std::vector<Owner>>;

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// "elu|relu|exp", as set_choices writes it.
std::string choices_text(const Setting& setting) {
  return fmt::format("{}", fmt::join(setting.choices, "|"));
}

// "feature map (default elu)"
std::string help_of(const Setting& setting) {
  const std::string initial = to_string(setting.initial);
  return initial.empty() ? setting.help : fmt::format("{} (default {})", setting.help, initial);
}

// The help of all owners; one entry for each where they differ.
std::string help_of(const std::vector<Owner>& owners) {
  const auto same = [&](const Owner& owner) {
    return help_of(owner.setting) == help_of(owners.front().setting) &&
           owner.setting.choices == owners.front().setting.choices;
  };
  if (std::all_of(owners.begin(), owners.end(), same)) return help_of(owners.front().setting);
  std::string help;
  for (const Owner& owner : owners)
    help += fmt::format("{}{}: {}{}{}", help.empty() ? "" : "\n", owner.name,
                        choices_text(owner.setting), owner.setting.choices.empty() ? "" : ", ",
                        help_of(owner.setting));
  return help;
}

const char* type_of(const Setting& setting) {
  if (std::holds_alternative<int64_t>(setting.initial)) return "INT";
  return std::holds_alternative<double>(setting.initial) ? "FLOAT" : "TEXT";
}

CLI::Option& add_setting(CLI::App& command, Settings& given, const Setting& setting,
                         const std::string& help) {
  const std::string key = setting.key, name = flag_name(key);
  if (std::holds_alternative<bool>(setting.initial)) {
    CLI::Option& option = *command.add_flag_function(
        "--" + name + ",!--no-" + name,
        [&given, key](int64_t count) { given[key] = count > 0 ? "true" : "false"; }, help);
    option.multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // of --bias --no-bias
    check_flag(option);
    return option;
  }
  CLI::Option& option = *command.add_option_function<std::string>(
      "--" + name, [&given, key](const std::string& text) { given[key] = text; }, help);
  option.type_name(type_of(setting));
  return option;
}

// Shows the flags of the chosen mechanisms alone, where some are chosen.
class ChosenHelp : public CLI::Formatter {
 public:
  explicit ChosenHelp(OwnersByFlag owners) : owners_(std::move(owners)) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    chosen_.clear();
    for (const auto& [flag, owners] : owners_)
      for (const Owner& owner : owners)
        if (const CLI::Option* option = app->get_option_no_throw("--" + owner.kind))
          for (const std::string& words : option->results())
            for (const std::string& word : CLI::detail::split(words, ','))
              for (const std::string& item : CLI::detail::split(word, '/'))
                chosen_[owner.kind].push_back(item.substr(0, item.find(':')));
    std::string help = CLI::Formatter::make_help(app, name, mode);
    for (size_t gap; (gap = help.find("\n\n\n")) != std::string::npos;) help.erase(gap, 1);
    return help;
  }

  std::string make_group(std::string group, bool positional,
                         std::vector<const CLI::Option*> options) const override {
    std::erase_if(options, [&](const CLI::Option* option) {
      return owners_.count(option->get_single_name()) != 0 && shown(*option).empty();
    });
    return options.empty() ? "" : CLI::Formatter::make_group(group, positional, options);
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const std::vector<Owner> owners = shown(*option);
    return owners.empty() ? CLI::Formatter::make_option_desc(option) : help_of(owners);
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::vector<Owner> owners = shown(*option);
    if (owners.size() != 1 || owners.front().setting.choices.empty())
      return CLI::Formatter::make_option_opts(option);
    return " " + choices_text(owners.front().setting);
  }

 private:
  std::vector<Owner> shown(const CLI::Option& option) const {
    const auto found = owners_.find(option.get_single_name());
    if (found == owners_.end()) return {};
    std::vector<Owner> result;
    for (const Owner& owner : found->second) {
      const auto names = chosen_.find(owner.kind);
      if (names == chosen_.end() || contains(names->second, owner.name)) result.push_back(owner);
    }
    return result;
  }

  OwnersByFlag owners_;
  mutable std::map<std::string, std::vector<std::string>> chosen_;  // names by kind
};

}  // namespace

MechanismKind find_kind(const std::string& key) {
  for (const MechanismKind& kind : mechanism_kinds())
    if (kind.key == key) return kind;
  fail(ErrorKind::usage, "there is no kind of mechanism '{}'", key);
}

void add_general_flags(CLI::App& command, Settings& given,
                       const std::function<bool(const GeneralSetting&)>& wanted) {
  for (const GeneralSetting& general : general_settings()) {
    if (!wanted(general)) continue;
    const Setting& setting = general.setting;
    CLI::Option& option = add_setting(command, given, setting, setting.help);
    option.group(general.group)->default_str(to_string(setting.initial));
    if (!setting.choices.empty())
      set_choices(command, "--" + flag_name(setting.key), setting.choices);
  }
}

void add_mechanism_flags(CLI::App& command, Settings& given,
                         const std::vector<std::string>& kinds) {
  OwnersByFlag all_owners;
  for (const std::string& key : kinds) {
    const MechanismKind kind = find_kind(key);
    for (const Mechanism& first : kind.mechanisms)
      for (const Setting& setting : first.settings) {
        const std::string flag = flag_name(setting.key);
        if (all_owners.count(flag) != 0) continue;
        std::vector<Owner>& owners = all_owners[flag];
        std::vector<std::string> names, choices;
        for (const Mechanism& mechanism : kind.mechanisms)
          if (const Setting* own = find_setting(mechanism.settings, setting.key)) {
            owners.push_back({key, mechanism.name, *own});
            names.push_back(mechanism.name);
            for (const std::string& choice : own->choices)
              if (!contains(choices, choice)) choices.push_back(choice);
          }
        CLI::Option& option = add_setting(command, given, setting, help_of(owners));
        option.group(fmt::format("Settings of {} {}", key, fmt::join(names, ", ")));
        if (!choices.empty()) set_choices(command, "--" + flag, choices);
      }
  }
  command.formatter(std::make_shared<ChosenHelp>(all_owners));
}

std::vector<AttentionOptions> chosen_attentions(const std::vector<std::string>& names,
                                                const Settings& given) {
  std::vector<AttentionOptions> result;
  for (const std::string& name : names) {
    const std::vector<AttentionOptions> items = parse_attentions(name);
    require(items.size() == 1, "`attention` {}: name one here, without a /", name);
    Settings shared;
    for (const Setting& setting : declared_by(items))
      if (given.has(setting.key))
        shared[setting.key] = parse_value(setting, given.text(setting.key));
    complete_settings(result.emplace_back(with_shared(items, shared)[0]));
  }
  for (const auto& [key, text] : given) {
    std::vector<std::string> owners;
    for (const AttentionEntry& entry : attentions())
      if (find_setting(entry.settings, key) != nullptr) owners.push_back(entry.name);
    const bool declared = std::any_of(
        result.begin(), result.end(),
        [&](const AttentionOptions& options) { return contains(owners, options.name); });
    if (!declared)
      fail(ErrorKind::usage, "`{}` is a setting of attention {}, not of {}; leave it out", key,
           fmt::join(owners, ", "), fmt::join(names, ", "));
  }
  return result;
}

}  // namespace linea
