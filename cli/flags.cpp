#include "cli/flags.h"

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace linea {

CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::string& footer) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->footer(footer);
  return *command;
}

void require_command(CLI::App& command) { command.require_subcommand(1); }

void set_action(CLI::App& command, const std::function<void()>& action) {
  command.callback(action);
}

template <typename T>
void add_option(CLI::App& command, const std::string& names, T& value, const std::string& help,
                OptionKind kind) {
  CLI::Option* option = command.add_option(names, value, help);
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

void add_flag(CLI::App& command, const std::string& names, bool& value, const std::string& help) {
  command.add_flag(names, value, help);
}

void set_choices(CLI::App& command, const std::string& name,
                 const std::vector<std::string>& choices) {
  command.get_option(name)->type_name(fmt::format("{}", fmt::join(choices, "|")));
}

void exclude_each_other(CLI::App& command, const std::string& one, const std::string& other) {
  command.get_option(one)->excludes(command.get_option(other));
}

bool was_given(const CLI::App& command, const std::string& name) {
  return command.get_option(name)->count() > 0;
}

std::set<std::string> given_names(const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0) names.insert(option->get_single_name());
  return names;
}

}  // namespace linea
