// The command line: the table of commands, and how an error becomes one line and an exit code.
#include "cli/program.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "base/settings.h"
#include "base/subnormals.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/terminal.h"
#include "cli/usage_error.h"
#include "parallel/launch.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tensor/memory_report.h"
#include "tensor/tuned_libraries.h"

namespace {

constexpr const char* kAbout =
    "Linea trains Performers and linear Transformers on images and text, and samples from them.\n"
    "First image:  linea train --preset digits-demo --out RUN && linea sample RUN --out grid.png";

// Libraries name a setting as `min_lr`; on the command line it is the flag --min-lr.
std::string with_flags(const std::string& message) {
  std::string result;
  for (size_t at = 0; at < message.size();) {
    const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at + 1);
    if (message[at] != '`' || end == std::string::npos || message[end] != '`') {
      result += message[at++];
      continue;
    }
    result += "--" + linea::flag_name(message.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return result;
}

void complain(const std::string& message) {
  std::fprintf(stderr, "linea: %s\n", linea::printable(with_flags(message)).c_str());
}

// Names the flags of the command that say how much there is.
std::string size_hint(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const char* flag :
       {"--batch", "--length", "--lengths", "--size", "--heads", "--count", "--counts", "--tokens"})
    if (command.get_option_no_throw(flag) != nullptr) flags.emplace_back(flag);
  return flags.empty() ? "use smaller files" : fmt::format("lower {}", fmt::join(flags, ", "));
}

struct Command {
  std::string_view name;
  void (*add)(CLI::App& program, int& exit_code);
  bool alone = true;  // does not describe the others
};
constexpr Command kCommands[] = {{"train", linea::add_train},
                                 {"sample", linea::add_sample},
                                 {"eval", linea::add_eval},
                                 {"judge", linea::add_judge},
                                 {"attend", linea::add_attend},
                                 {"verify", linea::add_verify},
                                 {"bench", linea::add_bench},
                                 {"compare", linea::add_compare},
                                 {"approx", linea::add_approx},
                                 {"lab", linea::add_lab},
                                 {"data", linea::add_data},
                                 {"info", linea::add_info},
                                 {"runs", linea::add_runs},
                                 {"presets", linea::add_presets},
                                 {"plot", linea::add_plot},
                                 {"help", linea::add_help, false},
                                 {"completion", linea::add_completion, false},
                                 {"man", linea::add_man, false}};

// A command that is called by its name is built alone: the others would take a third of a start.
// But for its help, in which CLI11 orders flags that exclude each other by their addresses.
void add_commands(CLI::App& program, int& exit_code, const std::vector<std::string_view>& words) {
  const auto is_asked = [&](const Command& one) { return one.alone && one.name == words.front(); };
  const bool help = std::any_of(words.begin(), words.end(), [](std::string_view word) {
    return word == "-h" || word == "--help";
  });
  const bool any =
      !help && !words.empty() && std::any_of(std::begin(kCommands), std::end(kCommands), is_asked);
  for (const Command& command : kCommands)
    if (!any || is_asked(command)) command.add(program, exit_code);
}

// Ranks of one host share its cores and its memory, and all compute by what every processor has.
void share_host() {
  linea::Ranks& ranks = linea::ranks();
  if (ranks.alone()) return;
  linea::set_threads(std::max(1, linea::context().threads / ranks.host().sharing));
  linea::share_machine_memory(ranks.host().ranks);
  std::vector<std::string> common = linea::all_cpu_isas();  // the widest first
  for (const std::string& names :
       ranks.all_gather(fmt::format("{} ", fmt::join(common, " ")), "the processors"))
    std::erase_if(common, [&](const std::string& name) {
      return (" " + names).find(" " + name + " ") == std::string::npos;
    });
  const char* const chosen = std::getenv("LINEA_ISA");
  if ((chosen != nullptr && *chosen != '\0') || common.empty() ||
      common.front() == linea::all_cpu_isas().front())
    return;
  setenv("LINEA_ISA", common.front().c_str(), 1);
  std::fprintf(stderr, "linea: all ranks compute by %s, which every processor has\n",
               common.front().c_str());
}

// Commands that several processes can work on together.
constexpr std::string_view kOfRanks[] = {"train",       "eval",          "sample",
                                         "bench train", "bench scaling", "info"};

void refuse_ranks(const std::vector<std::string_view>& words) {
  if (linea::ranks().alone() || words.empty() || words[0].starts_with("-")) return;
  std::string name(words[0]);
  if (name == "bench" && words.size() > 1) name += fmt::format(" {}", words[1]);
  if (std::find(std::begin(kOfRanks), std::end(kOfRanks), name) == std::end(kOfRanks))
    linea::fail(linea::ErrorKind::usage,
                "linea {} is the work of one process, not of {}: start it without mpirun", name,
                linea::ranks().size());
}

int run(int argc, char** argv) {
  CLI::App program{kAbout, "linea"};
  program.set_version_flag("--version", "linea " + linea::version());
  int exit_code = 0;
  refuse_ranks({argv + 1, argv + argc});
  add_commands(program, exit_code, {argv + 1, argv + argc});
  program.require_subcommand(1);
  for (CLI::App* command : program.get_subcommands([](CLI::App*) { return true; }))
    command->fallthrough(false);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(linea::help_text(linea::asked_command(program)).c_str(), stdout);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --version
    linea::fail(linea::ErrorKind::usage, "{}", linea::explain(error, program));
  } catch (const std::bad_alloc&) {
    linea::fail(linea::ErrorKind::memory,
                "out of memory outside of tensors (data, files, output): {}; {}",
                linea::machine_memory().text(), size_hint(linea::asked_command(program)));
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && exit_code == 0)
    linea::fail(linea::ErrorKind::write, "could not write all of standard output");
  return exit_code;
}

}  // namespace

int linea::run_program(int argc, char** argv) {
  restart_with_tuned_libraries(argv);  // before MPI, which a process starts once
  linea::flush_subnormals();           // before any thread
  // A file that exceeds the limit on its size is a failed write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 0;
  std::string message;
  try {
    linea::check_blas();
    linea::start_ranks();
    share_host();
    static_cast<void>(linea::cpu_isa());  // refuses an unknown LINEA_ISA
    linea::take_blas_buffers();
    return end_ranks(run(argc, argv));
  } catch (const linea::Error& error) {
    code = error.exit_code();
    message = error.what();
  } catch (const std::bad_alloc&) {
    code = static_cast<int>(linea::ErrorKind::memory);
    message =
        fmt::format("out of memory before any command runs: {}", linea::machine_memory().text());
  } catch (const std::exception& error) {
    code = 1;
    message = error.what();
  }
  return fail_ranks(code, message, complain);
}
