#include "cli/flags.h"

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/settings.h"
#include "train/machine.h"

namespace linea {
namespace {

void note_threads(const CLI::App& command) {
  const CLI::Option* option = command.get_option_no_throw("--threads");
  if (option == nullptr || option->empty()) return;
  const auto threads = parse_number<int64_t>("threads", option->results().back());
  const unsigned cores = std::thread::hardware_concurrency();
  if (cores > 0 && threads > cores && threads <= kMaxThreads)
    fmt::print(stderr, "--threads {}: this machine has {} {}; more threads make it slower\n",
               threads, cores, cores == 1 ? "core" : "cores");
}

}  // namespace

CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::string& footer) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->footer(footer);
  return *command;
}

void require_command(CLI::App& command) { command.require_subcommand(1); }

void set_action(CLI::App& command, const std::function<void()>& action) {
  command.callback([&command, action] {
    note_threads(command);
    action();
  });
}

namespace {

// The type of a word of an option whose value is a T.
template <typename T>
struct WordOf {
  using Type = T;
};
template <typename T>
struct WordOf<std::optional<T>> {
  using Type = T;
};
template <typename T>
struct WordOf<std::vector<T>> {
  using Type = T;
};

// The parameter that a flag sets: "key_size".
std::string key_of(const CLI::Option& option) {
  std::string key = option.get_single_name();
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

}  // namespace

template <typename T>
void add_option(CLI::App& command, const std::string& names, T& value, const std::string& help,
                OptionKind kind) {
  CLI::Option* option = command.add_option(names, value, help);
  if (kind == OptionKind::required) option->required();
  if (kind == OptionKind::comma_separated) option->delimiter(',');
  if (kind == OptionKind::repeatable) option->allow_extra_args(false);
  using Word = typename WordOf<T>::Type;
  if constexpr (!std::is_same_v<Word, std::string>)  // before CLI11 converts it, in its own words
    option->check([key = key_of(*option)](const std::string& word) {
      static_cast<void>(parse_number<Word>(key, word));
      return std::string();
    });
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
  check_flag(*command.add_flag(names, value, help));
}

void check_flag(CLI::Option& option) {
  option.check([](const std::string& text) {
    return text == "true" || text == "false" ? "" : text + " is neither true nor false";
  });
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

std::map<std::string, int64_t> positions_of(const CLI::App& command) {
  std::map<std::string, int64_t> positions;
  int64_t position = 0;
  for (const CLI::Option* option : command.parse_order()) positions[key_of(*option)] = ++position;
  return positions;
}

std::set<std::string> given_names(const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0) names.insert(option->get_single_name());
  return names;
}

void check_range(const char* flag, int64_t value, int64_t min, int64_t max) {
  require(value >= min && value <= max, "{} is {}; it must be from {} to {}", flag, value, min,
          max);
}

}  // namespace linea
