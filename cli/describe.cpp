#include "cli/describe.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace linea {
namespace {

DescribedOption describe(const CLI::Option& option) {
  DescribedOption result;
  for (const std::string& name : option.get_lnames()) result.flags.push_back("--" + name);
  result.name = option.get_name(true);
  if (option.get_items_expected_max() > 0) result.value = option.get_type_name();
  // "A|B", as set_choices (cli/flags.h) writes it
  if (result.value.find('|') != std::string::npos)
    result.choices = CLI::detail::split(result.value, '|');
  result.initial = option.get_default_str();
  result.help = option.get_description();
  result.group = option.get_group();
  return result;
}

}  // namespace

DescribedCommand describe(const CLI::App& app) {
  DescribedCommand result{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) result.options.push_back(describe(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    result.commands.push_back(describe(*command));
  return result;
}

}  // namespace linea
