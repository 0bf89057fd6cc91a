// The manual page, in the requests of man(7).
#include <fmt/format.h>

#include <sstream>

#include "cli/describe.h"

namespace linea {
namespace {

std::string replace_all(std::string text, const std::string& what, const std::string& by) {
  for (size_t i = 0; (i = text.find(what, i)) != std::string::npos; i += by.size())
    text.replace(i, what.size(), by);
  return text;
}

constexpr size_t kInput = 78;  // columns of a line of roff

// Source of roff for a text: no escapes, hyphens that can be copied, choices and paths that may be
// broken, no request at the start of a line, no line too long.
std::string roff(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = replace_all(replace_all(line, "\\", "\\e"), "-", "\\-");
    line = replace_all(replace_all(line, "|", "|\\:"), ",", ",\\:");
    line = replace_all(line, ",\\: ", ", ");
    const size_t text_at = line.find_first_not_of(' ');
    if (text_at == std::string::npos) {  // mandoc refuses blank lines
      result += "\n.PP";
      continue;
    }
    // A line that begins with a blank, and one after a paragraph, has its break.
    if (!result.empty()) result += text_at > 0 || result.ends_with(".PP") ? "\n" : "\n.br\n";
    std::istringstream words(line);
    std::string source(text_at, ' '), word;
    size_t used = 0;
    while (words >> word) {
      const bool fits = used + 1 + word.size() <= kInput;
      if (used > 0) source += fits ? ' ' : '\n';
      if (used == 0 || !fits) {
        used = 0;
        if (word[0] == '.' || word[0] == '\'') source += "\\&";
      }
      source += word;
      used += 1 + word.size();
    }
    result += source;
  }
  return result;
}

void append_option(std::string& page, const DescribedOption& option) {
  const std::string names =
      option.flags.empty() ? option.name : fmt::format("{}", fmt::join(option.flags, ", "));
  page += fmt::format(".TP\n\\fB{}\\fR", roff(names));
  if (!option.flags.empty() && !option.value.empty()) page += " \\fI" + roff(option.value) + "\\fR";
  page += "\n" + roff(option.help);
  if (!option.initial.empty() && !option.value.empty())
    page += " (default: " + roff(option.initial) + ")";
  page += "\n";
}

void append_command(std::string& page, const DescribedCommand& command, const std::string& name) {
  page += fmt::format(".SH {}\n{}\n", roff(name), roff(command.help));
  std::string group = "Options";
  for (const DescribedOption& option : command.options) {
    if (option.group != group) page += fmt::format(".SS {}\n", roff(option.group));
    group = option.group;
    append_option(page, option);
  }
  if (!command.footer.empty()) page += ".PP\n" + roff(command.footer) + "\n";
  for (const DescribedCommand& below : command.commands)
    append_command(page, below, name + " " + below.name);
}

struct Entry {
  const char *name, *text;
};

std::string section(const char* title, const std::vector<Entry>& entries) {
  std::string text = fmt::format(".SH {}\n", title);
  for (const auto& [name, help] : entries)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(help));
  return text;
}

const std::vector<Entry> kExitCodes = {
    {"0", "done"},
    {"1", "linea lab check: the answer is not right"},
    {"2", "usage: an unknown or impossible option, no such device"},
    {"3", "bad input: a path or run that is missing, unreadable, truncated or of another format"},
    {"4", "numeric failure: NaN, or a check of verify that fails"},
    {"5", "out of memory"},
    {"6", "writing failed"},
    {"7",
     "of several processes one was lost or differs; --resume continues from the last checkpoint"},
    {"75", "stopped by a signal or --max-time; the run is saved"},
    {"130", "stopped by a second Ctrl-C; nothing more is saved"}};

const std::vector<Entry> kFiles = {
    {"RUN/config.toml", "the settings of a run, which linea train --config repeats"},
    {"RUN/metrics.jsonl", "its losses, speed and validations, one JSON object a line"},
    {"RUN/checkpoints/step-*/model.safetensors",
     "weights, settings and vocabulary: enough to sample and to evaluate"},
    {"RUN/samples/", "samples during training, PNG or text"},
    {"RUN/report.html", "the run as a page for a browser"},
    {"RUN/tensorboard/", "event files, with --tensorboard"},
    {"datasets/NAME/", "where linea data get puts a data set"},
    {"$XDG_CACHE_HOME/linea/", "the classifiers of linea judge; default: ~/.cache/linea/"}};

const std::vector<Entry> kEnvironment = {
    {"LINEA_ISA",
     "the kernels to use, as linea info lists them; default: the best of this processor"},
    {"NO_COLOR", "not empty: no images in the terminal"},
    {"TERM", "dumb: plain lines instead of a line of progress, and no images"},
    {"XDG_CACHE_HOME, HOME", "where the classifiers of linea judge are saved"},
    {"OMP_NUM_THREADS", "threads, where --threads is not given; default: all cores"},
    {"GOMP_SPINCOUNT, OMP_WAIT_POLICY",
     "how long threads of OpenMP wait actively; where neither is set, linea sets GOMP_SPINCOUNT to "
     "3000"},
    {"OPENBLAS_CORETYPE", "read by OpenBLAS: the processor whose kernels it uses"}};

}  // namespace

std::string manual_page(const DescribedCommand& program, const std::string& version) {
  std::string page = fmt::format(
      ".TH LINEA 1 \"\" \"linea {}\" \"User Commands\"\n"
      ".ad l\n"  // lines are not filled with blanks: a value that cannot be broken leaves too few
      ".SH NAME\nlinea \\- Performers and linear Transformers on images and text\n"
      ".SH SYNOPSIS\n\\fBlinea\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n{}\n",
      roff(version), roff(program.help));
  for (const DescribedCommand& command : program.commands)
    append_command(page, command, command.name);
  return page + section("EXIT STATUS", kExitCodes) + section("FILES", kFiles) +
         section("ENVIRONMENT", kEnvironment);
}

}  // namespace linea
