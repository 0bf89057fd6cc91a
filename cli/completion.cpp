// Shell completion: scripts for bash and zsh, and the commands `completion` and `man` that cmake
// runs to install them.
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/flags.h"
#include "cli/program.h"
#include "tensor/error.h"

namespace linea {
namespace {

// Patterns of the shell's `case` over "linea bench train", and what they select.
struct Cases {
  std::string commands;  // "linea train"|"linea bench"|...
  std::string choices;   // of "linea train --preset": the values
  std::string words;     // of "linea train": its subcommands and its flags
};

// A word of a zsh array for _describe: 'name:help'.
std::string described(const std::string& name, const std::string& help) {
  std::string text;
  for (const char c : help.substr(0, help.find('\n')))
    text += c == '\'' ? "'\\''" : std::string(1, c);
  return fmt::format("'{}:{}'", name, text);
}

void collect(const DescribedCommand& command, const std::string& path, bool zsh, Cases& cases) {
  const auto word = [&](const std::string& name, const std::string& help) {
    return zsh ? described(name, help) : name;
  };
  std::vector<std::string> flags, below;
  for (const DescribedOption& option : command.options)
    for (const std::string& flag : option.flags) {
      flags.push_back(word(flag, option.help));
      if (!option.choices.empty())
        cases.choices += fmt::format("    \"{} {}\") choices=\"{}\" ;;\n", path, flag,
                                     fmt::join(option.choices, " "));
    }
  for (const DescribedCommand& sub : command.commands) {
    below.push_back(word(sub.name, sub.help));
    cases.commands += fmt::format("{}\"{} {}\"", cases.commands.empty() ? "" : "|", path, sub.name);
    collect(sub, path + " " + sub.name, zsh, cases);
  }
  const char *open = zsh ? "(" : "\"", *close = zsh ? ")" : "\"";
  cases.words +=
      fmt::format("    \"{}\")\n      commands={}{}{}\n      flags={}{}{} ;;\n", path, open,
                  fmt::join(below, " "), close, open, fmt::join(flags, " "), close);
}

// Where nothing is offered, `-o default` completes file names. The word breaks of bash contain "=".
constexpr const char* kBash = R"(# bash completion for linea, printed by: linea completion bash
_linea() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command=linea choices= commands= flags= before= i
  [ "$word" != = ] || word=
  [ "$flag" != = ] || flag=${{COMP_WORDS[COMP_CWORD - 2]}}
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${{COMP_WORDS[i]}}" in
      {commands}) command="$command ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$command $flag" in
{choices}    *) ;;
  esac
  case "$command" in
{words}  esac
  case "$word" in
    -*) choices=$flags ;;
    *,*) before=${{word%,*}}, ;;
  esac
  COMPREPLY=($(compgen -P "$before" -W "${{choices:-$commands}}" -- "${{word##*,}}"))
}}
complete -o default -F _linea linea
)";

constexpr const char* kZsh = R"(#compdef linea
# zsh completion for linea, printed by: linea completion zsh
_linea() {{
  local flag=$words[CURRENT-1] command=linea choices= i
  local -a commands flags
  if [[ $PREFIX == --*=* ]]; then
    flag=${{PREFIX%%=*}}
    compset -P '*='
  fi
  for ((i = 2; i < CURRENT; i++)); do
    case "$command $words[i]" in
      {commands}) command="$command $words[i]" ;;
    esac
  done
  case "$command $flag" in
{choices}  esac
  case "$command" in
{words}  esac
  if [[ -n $choices ]]; then
    compset -P '*,'
    compadd -- ${{=choices}}
  elif [[ $PREFIX == -* ]]; then
    _describe -o option flags
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}}
_linea "$@"
)";

}  // namespace

std::string completion_script(const DescribedCommand& program, const std::string& shell) {
  const bool zsh = shell == "zsh";
  require(zsh || shell == "bash", "no completion for '{}'; choose bash or zsh", shell);
  Cases cases;
  collect(program, "linea", zsh, cases);
  return fmt::format(fmt::runtime(zsh ? kZsh : kBash), fmt::arg("commands", cases.commands),
                     fmt::arg("choices", cases.choices), fmt::arg("words", cases.words));
}

void add_completion(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "completion", "print the completion script of a shell",
                                  "Example:  source <(linea completion bash)");
  const auto shell = std::make_shared<std::string>();
  add_option(command, "SHELL", *shell, "bash or zsh", OptionKind::required);
  set_choices(command, "SHELL", {"bash", "zsh"});
  set_action(command, [&program, shell, &exit_code] {
    std::fputs(completion_script(describe(program), *shell).c_str(), stdout);
    exit_code = 0;
  });
}

void add_man(CLI::App& program, int& exit_code) {
  CLI::App& command =
      add_command(program, "man", "print the manual page", "Example:  linea man | man -l -");
  set_action(command, [&program, &exit_code] {
    std::fputs(manual_page(describe(program), version()).c_str(), stdout);
    exit_code = 0;
  });
}

}  // namespace linea
