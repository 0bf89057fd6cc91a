// Shell completion: scripts for bash, zsh and fish, and the commands `completion` and `man` that
// cmake runs to install them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/flags.h"
#include "cli/program.h"

namespace linea {
namespace {

enum class Shell { bash, zsh, fish };

// In quotes of the shell, with their own escaped.
std::string quoted(Shell shell, const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (shell == Shell::fish && (c == '\'' || c == '\\')) result += '\\';
    result += c == '\'' && shell != Shell::fish ? "'\\''" : std::string(1, c);
  }
  return "'" + result + "'";
}

std::string first_line(const std::string& help) { return help.substr(0, help.find('\n')); }

// Patterns of the shell's `case` over "linea bench train", and what they select.
struct Cases {
  std::string commands;  // "linea train"|"linea bench"|...; not help, which is followed by them
  std::map<std::string, std::string> values;  // of 'offer=words choices="a b"': the patterns of
                                              // the flags, "linea train --preset"|...
  std::string words;  // of "linea train": its subcommands, its flags and its arguments' values
};

// offer=words choices="fp32 bf16"
std::string offer_of(const DescribedOption& option) {
  switch (option.offer) {
    case Offer::words:
      return fmt::format("offer=words choices=\"{}\"", fmt::join(option.choices, " "));
    case Offer::files:
      return "offer=files";
    case Offer::folders:
      return "offer=folders";
    case Offer::runs:
      return "offer=runs";
    case Offer::nothing:
      break;
  }
  return "offer=nothing";
}

void append_pattern(std::string& patterns, const std::string& pattern) {
  patterns += fmt::format("{}\"{}\"", patterns.empty() ? "" : "|", pattern);
}

void collect(const DescribedCommand& command, const std::string& path, Shell shell, Cases& cases) {
  const bool zsh = shell == Shell::zsh;
  const auto word = [&](const std::string& name, const std::string& help) {
    return zsh ? quoted(shell, name + ":" + first_line(help)) : name;
  };
  std::vector<std::string> flags, below;
  std::string argument;
  for (const DescribedOption& option : command.options) {
    if (option.flags.empty()) argument = offer_of(option);
    for (const std::string& flag : option.flags) {
      flags.push_back(word(flag, option.help));
      if (!option.value.empty()) append_pattern(cases.values[offer_of(option)], path + " " + flag);
    }
  }
  for (const DescribedCommand& sub : command.commands) {
    below.push_back(word(sub.name, sub.help));
    if (sub.name != "help") append_pattern(cases.commands, path + " " + sub.name);
    collect(sub, path + " " + sub.name, shell, cases);
  }
  const char *open = zsh ? "(" : "\"", *close = zsh ? ")" : "\"";
  cases.words += fmt::format(
      "    \"{}\")\n      commands={}{}{}\n      flags={}{}{}\n      [ -n \"$offer\" ] || "
      "{} ;;\n",
      path, open, fmt::join(below, " "), close, open, fmt::join(flags, " "), close,
      argument.empty() ? "offer=commands" : argument);
}

// The word breaks of bash contain "=". A word that ends a list begins after its last comma.
constexpr const char* kBash = R"(# bash completion for linea, printed by: linea completion bash
_linea() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command=linea offer= choices= commands= flags= before= i
  [ "$word" != = ] || word=
  [ "$flag" != = ] || flag=${{COMP_WORDS[COMP_CWORD - 2]}}
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${{COMP_WORDS[i]}}" in
      {commands}) command="$command ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$command $flag" in
{values}  esac
  case "$command" in
{words}  esac
  case "$word" in -*) offer=flags ;; esac
  case $offer in
    files | folders | runs) compopt -o filenames 2>/dev/null ;;
  esac
  case $offer in
    files) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    folders) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    runs) mapfile -t COMPREPLY < <(
      compgen -d -- "$word"
      compgen -f -X '!*.safetensors' -- "$word"
    ) ;;
    flags) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    commands) COMPREPLY=($(compgen -W "$commands" -- "$word")) ;;
    words)
      case "$word" in *,*) before=${{word%,*}}, ;; esac
      COMPREPLY=($(compgen -P "$before" -W "$choices" -- "${{word##*,}}")) ;;
    *) COMPREPLY=() ;;
  esac
}}
complete -F _linea linea
)";

constexpr const char* kZsh = R"(#compdef linea
# zsh completion for linea, printed by: linea completion zsh
_linea() {{
  local flag=$words[CURRENT-1] command=linea offer= choices= i
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
{values}  esac
  case "$command" in
{words}  esac
  if [[ $PREFIX == -* ]]; then
    offer=flags
  fi
  case $offer in
    files) _files ;;
    folders) _files -/ ;;
    runs) _files -g '*.safetensors' ;;
    flags) _describe -o option flags ;;
    commands) (( $#commands )) && _describe command commands ;;
    words)
      compset -P '*,'
      compadd -- ${{=choices}} ;;
  esac
}}
_linea "$@"
)";

constexpr const char* kFish = R"(# fish completion for linea, printed by: linea completion fish
function __linea_at # whether the command on the line is the one of the arguments
  set -l command linea
  for word in (commandline -opc)[2..-1]
    switch "$command $word"
      case {commands}
        set command "$command $word"
    end
  end
  test "$command" = "$argv"
end
function __linea_words # the arguments, after what a list before its last comma has
  set -l before (string match -r '.*,' -- (string replace -r '^--[^=]*=' '' -- (commandline -ct)))
  string join \n -- "$before"$argv
end
function __linea_runs # folders and model files
  __fish_complete_directories
  set -l files (commandline -ct)*.safetensors
  string join \n -- $files
end
complete -c linea -f
)";

// fish takes a completion for each flag, argument and command, with a condition each.
void append_fish(const DescribedCommand& command, const std::string& path, std::string& script) {
  const std::string at = fmt::format("complete -c linea -n '__linea_at {}'", path);
  for (const DescribedOption& option : command.options) {
    std::string values;
    switch (option.offer) {
      case Offer::words:
        values = fmt::format(" -xa '(__linea_words {})'", fmt::join(option.choices, " "));
        break;
      case Offer::folders:
        values = " -xa '(__fish_complete_directories)'";
        break;
      case Offer::runs:
        values = " -xa '(__linea_runs)'";
        break;
      case Offer::files:
        values = option.flags.empty() ? " -F" : " -rF";
        break;
      case Offer::nothing:
        values = option.value.empty() ? "" : " -x";
    }
    if (option.flags.empty()) script += at + values + "\n";
    for (const std::string& flag : option.flags)
      script += fmt::format("{} -l {}{} -d {}\n", at, flag.substr(2), values,
                            quoted(Shell::fish, first_line(option.help)));
  }
  for (const DescribedCommand& sub : command.commands) {
    script +=
        fmt::format("{} -a {} -d {}\n", at, sub.name, quoted(Shell::fish, first_line(sub.help)));
    append_fish(sub, path + " " + sub.name, script);
  }
}

}  // namespace

std::string completion_script(const DescribedCommand& program, const std::string& name) {
  const std::map<std::string, Shell> shells = {
      {"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}};
  const auto found = shells.find(name);
  require(found != shells.end(), "no completion for '{}'; choose bash, zsh or fish", name);
  Cases cases;
  collect(program, "linea", found->second, cases);
  if (found->second == Shell::fish) {
    std::replace(cases.commands.begin(), cases.commands.end(), '|', ' ');
    std::string script = fmt::format(kFish, fmt::arg("commands", cases.commands));
    append_fish(program, "linea", script);
    return script;
  }
  std::string values;
  for (const auto& [offer, patterns] : cases.values)
    values += fmt::format("    {}) {} ;;\n", patterns, offer);
  return fmt::format(fmt::runtime(found->second == Shell::zsh ? kZsh : kBash),
                     fmt::arg("commands", cases.commands), fmt::arg("values", values),
                     fmt::arg("words", cases.words));
}

void add_completion(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "completion", "print the completion script of a shell",
                                  "Example:  source <(linea completion bash)\n"
                                  "fish:     linea completion fish | source");
  const auto shell = std::make_shared<std::string>();
  add_option(command, "SHELL", *shell, "bash, zsh or fish", OptionKind::required);
  set_choices(command, "SHELL", {"bash", "zsh", "fish"});
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
