#include "cli/usage_error.h"

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <vector>

#include "train/suggestion.h"

namespace linea {
namespace {

std::vector<std::string> known_flags(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> known_commands(CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands([](CLI::App*) { return true; }))
    names.push_back(below->get_name());
  return names;
}

std::string see_help(const CLI::App& command) {
  return fmt::format("; see {} --help", path_of(command));
}

// `word` is no flag and no command here.
std::string explain_unknown(const std::string& word, CLI::App& command) {
  const bool flag = word.starts_with("--");
  const std::string name = word.substr(0, word.find('='));
  const std::string meant = suggestion(name, flag ? known_flags(command) : known_commands(command));
  return fmt::format("there is no {} '{}'{}", flag ? "option" : "command or argument", name,
                     meant.empty() ? see_help(command) : meant);
}

// "--steps" of "--steps: 1 required INT missing".
std::string flag_in(const std::string& message) {
  return message.substr(0, message.find_first_of(": "));
}

std::string explain_count(const std::string& message) {
  const std::string flag = flag_in(message);
  if (message.find("At Most") == std::string::npos) return flag + " needs a value";
  const std::string count = message.substr(message.rfind(' ') + 1);
  return fmt::format("{} is given {}; give it once", flag,
                     count == "2" ? "twice" : count + " times");
}

}  // namespace

CLI::App& asked_command(CLI::App& program) {
  CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : path_of(*parent) + " ") + command.get_name();
}

std::string explain(const CLI::ParseError& error, CLI::App& program) {
  CLI::App& command = asked_command(program);
  const std::string message = error.what();
  const std::vector<std::string> unknown = program.remaining(true);
  if (!unknown.empty()) return explain_unknown(unknown.front(), command);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::vector<std::string> below = known_commands(command);
    if (below.empty()) return message + see_help(command);
    return fmt::format("{} needs a {}: {}{}", path_of(command),
                       &command == &program ? "command" : "subcommand", fmt::join(below, ", "),
                       see_help(command));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return explain_count(message);
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const std::string one = flag_in(message), other = message.substr(message.rfind(' ') + 1);
    return fmt::format("{} and {} exclude each other: choose one of them", one, other);
  }
  return message;
}

}  // namespace linea
