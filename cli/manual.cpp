// The manual page, in the requests of man(7).
#include <fmt/format.h>

#include "cli/describe.h"

namespace linea {
namespace {

std::string replace_all(std::string text, const std::string& what, const std::string& by) {
  for (size_t i = 0; (i = text.find(what, i)) != std::string::npos; i += by.size())
    text.replace(i, what.size(), by);
  return text;
}

// Text of a line of roff: no escapes, hyphens that can be copied, no request at its start.
std::string roff(const std::string& text) {
  std::string result = replace_all(replace_all(text, "\\", "\\e"), "-", "\\-");
  result = replace_all(replace_all(result, "\n.", "\n\\&."), "\n'", "\n\\&'");
  return replace_all(result, "\n", "\n.br\n");
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

constexpr const char* kExitCodes =
    ".SH EXIT STATUS\n"
    ".TP\n0\ndone\n"
    ".TP\n2\nusage: an unknown or impossible option, no such device\n"
    ".TP\n3\nbad input: a path or run that is missing, unreadable, truncated or of another format\n"
    ".TP\n4\nnumeric failure: NaN, or a check of verify that fails\n"
    ".TP\n5\nout of memory\n"
    ".TP\n6\nwriting failed\n"
    ".TP\n75\nstopped by a signal; the run is saved\n";

}  // namespace

std::string manual_page(const DescribedCommand& program, const std::string& version) {
  std::string page = fmt::format(
      ".TH LINEA 1 \"\" \"linea {}\" \"User Commands\"\n"
      ".SH NAME\nlinea \\- Performers and linear Transformers on images and text\n"
      ".SH SYNOPSIS\n\\fBlinea\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n{}\n",
      roff(version), roff(program.help));
  for (const DescribedCommand& command : program.commands)
    append_command(page, command, command.name);
  return page + kExitCodes;
}

}  // namespace linea
