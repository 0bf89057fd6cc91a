#include "train/flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace linea {

CLI::App& add_verb(CLI::App& parent, const std::string& name, const std::string& description,
                   const std::string& footer) {
  CLI::App* verb = parent.add_subcommand(name, description);
  verb->footer(footer);
  return *verb;
}

void require_verb(CLI::App& verb) { verb.require_subcommand(1); }

void set_action(CLI::App& verb, const std::function<void()>& action) { verb.callback(action); }

template <typename T>
void add_option(CLI::App& verb, const std::string& names, T& value, const std::string& help,
                OptionKind kind) {
  CLI::Option* option = verb.add_option(names, value, help);
  if (kind == OptionKind::required) option->required();
  if (kind == OptionKind::comma_separated) option->delimiter(',');
  if (kind == OptionKind::shows_default || kind == OptionKind::comma_separated)
    option->capture_default_str();
}

template void add_option(CLI::App&, const std::string&, int64_t&, const std::string&, OptionKind);
template void add_option(CLI::App&, const std::string&, double&, const std::string&, OptionKind);
template void add_option(CLI::App&, const std::string&, std::string&, const std::string&,
                         OptionKind);
template void add_option(CLI::App&, const std::string&, std::optional<int64_t>&, const std::string&,
                         OptionKind);
template void add_option(CLI::App&, const std::string&, std::vector<int64_t>&, const std::string&,
                         OptionKind);
template void add_option(CLI::App&, const std::string&, std::vector<std::string>&,
                         const std::string&, OptionKind);

void add_flag(CLI::App& verb, const std::string& names, bool& value, const std::string& help) {
  verb.add_flag(names, value, help);
}

void exclude_each_other(CLI::App& verb, const std::string& one, const std::string& other) {
  verb.get_option(one)->excludes(verb.get_option(other));
}

bool was_given(const CLI::App& verb, const std::string& name) {
  return verb.get_option(name)->count() > 0;
}

std::set<std::string> given_names(const CLI::App& verb) {
  std::set<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0) names.insert(option->get_single_name());
  return names;
}

}  // namespace linea
