// The tree of commands and flags as data: what the manual page and the shell completions are made
// of, so that both follow from the declarations that --help shows.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace linea {

// Kind of completion that a shell offers for a value.
enum class Offer { nothing, words, files, folders, runs };

struct DescribedOption {
  std::vector<std::string> flags;    // "--flip", "--no-flip"; empty: a positional argument
  std::string name;                  // of a positional argument
  std::string value;                 // the kind of value, such as INT; empty: takes none
  std::vector<std::string> choices;  // empty: any value
  Offer offer = Offer::nothing;      // words: the choices, or frequent ones among all values
  std::string initial, help, group;
};

struct DescribedCommand {
  std::string name, help, footer;
  std::vector<DescribedOption> options;
  std::vector<DescribedCommand> commands;
};

DescribedCommand describe(const CLI::App& app);

// A manual page in roff, section 1.
std::string manual_page(const DescribedCommand& program, const std::string& version);
// Error: ErrorKind::usage, a shell other than bash, zsh and fish.
std::string completion_script(const DescribedCommand& program, const std::string& shell);

}  // namespace linea
