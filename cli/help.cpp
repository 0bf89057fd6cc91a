// linea help: the help of a command; and how all help is wrapped.
#include "cli/help.h"

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <memory>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/usage_error.h"
#include "train/record/table.h"
#include "train/suggestion.h"

namespace linea {
namespace {

constexpr size_t kDescriptionColumn = 30;  // CLI11's

// Options and commands, which begin with two blanks, continue under their descriptions.
std::string wrapped_help(const std::string& line) {
  const size_t text = std::min(line.find_first_not_of(' '), line.size());
  return wrapped(line, text == 2 ? kDescriptionColumn : text,
                 std::min(output_columns(), kColumns)) +
         "\n";
}

// The command at the end of a path such as {"bench", "train"}.
CLI::App& find_command(CLI::App& program, const std::vector<std::string>& path) {
  CLI::App* command = &program;
  for (const std::string& name : path) {
    std::vector<std::string> known;
    CLI::App* found = nullptr;
    for (CLI::App* below : command->get_subcommands([](CLI::App*) { return true; })) {
      known.push_back(below->get_name());
      if (below->get_name() == name) found = below;
    }
    if (found == nullptr) {
      const std::string meant = suggestion(name, known);
      fail(ErrorKind::usage, "{} has no command '{}'{}", path_of(*command), name,
           meant.empty() ? fmt::format("; see {} --help", path_of(*command)) : meant);
    }
    command = found;
  }
  return *command;
}

}  // namespace

std::string help_text(const CLI::App& command) {
  const std::string text =
      command.get_formatter()->make_help(&command, path_of(command), CLI::AppFormatMode::Normal);
  std::string result;
  for (const std::string& line : CLI::detail::split(text, '\n')) result += wrapped_help(line);
  return result;
}

void add_help(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "help", "print the help of a command",
                                  "Example:  linea help bench train");
  const auto path = std::make_shared<std::vector<std::string>>();
  add_option(command, "COMMAND", *path, "the command; default: the list of all commands");
  set_action(command, [&program, path, &exit_code] {
    std::fputs(help_text(find_command(program, *path)).c_str(), stdout);
    exit_code = 0;
  });
}

}  // namespace linea
