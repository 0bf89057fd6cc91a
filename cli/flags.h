// The commands of the command line and their flags, as each command adds its own. CLI11 takes
// seconds to compile in every file that includes it: of the commands none does. What a flag gets
// wrong is an error of CLI11, which program.cpp reports.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace linea {

// `footer` ends the command's help.
CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::string& footer = "");
// Without one of its own commands it is an error.
void require_command(CLI::App& command);
// Sets the action that runs once all flags are read.
void set_action(CLI::App& command, const std::function<void()>& action);

enum class OptionKind {
  plain,
  required,
  shows_default,    // in the help: what `value` holds when the option is added
  comma_separated,  // a list, in one word or more; shows its default too
  repeatable        // a list, a word each time that the option is given
};

// `names` as "--batch" or "--batches,--batch"; without dashes, a positional argument.
// `value` lives as long as the command. T is int64_t, double or std::string, an optional int64_t,
// or a vector of int64_t or std::string.
template <typename T>
void add_option(CLI::App& command, const std::string& names, T& value, const std::string& help,
                OptionKind kind = OptionKind::plain);
void add_flag(CLI::App& command, const std::string& names, bool& value, const std::string& help);
// Refuses a value of a flag, as in --flag=VALUE, other than true and false.
void check_flag(CLI::Option& option);
// The values that the option may have, for the help and for completion; the command itself refuses
// others. `name` was added.
void set_choices(CLI::App& command, const std::string& name,
                 const std::vector<std::string>& choices);
// Both at once are an error. Both were added.
void exclude_each_other(CLI::App& command, const std::string& one, const std::string& other);

// Whether the user gave it; `name` was added.
bool was_given(const CLI::App& command, const std::string& name);
// The positions of the flags that the user gave, by the keys of what they set; of a flag that was
// given twice the later.
std::map<std::string, int64_t> positions_of(const CLI::App& command);
// The names, without their dashes, of what the user gave.
std::set<std::string> given_names(const CLI::App& command);

// Refuses a value of the flag that is not from min to max.
void check_range(const char* flag, int64_t value, int64_t min, int64_t max);

}  // namespace linea
