// linea presets: the named settings of linea train, how long they take and what they reach.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/settings_json.h"
#include "data/json.h"
#include "train/format.h"
#include "train/presets.h"
#include "train/record/table.h"

namespace linea {
namespace {

struct PresetsOptions {
  std::string name;
  bool json = false;
};

// "36s", "3h20m", "13 days"
std::string time_cell(double minutes) {
  constexpr double kDay = 24 * 60;
  if (minutes < 2 * kDay) return format_duration(60 * minutes);
  return fmt::format("{:.0f} days", minutes / kDay);
}

void print_json(const std::string& name) {
  const std::string text = preset_text(name);
  const PresetFacts facts = preset_facts(text);
  const RunConfig config = config_from_toml(text, name);
  print_json_line({{"preset", name},
                   {"task", config.task},
                   {"parameters", facts.parameters},
                   {"minutes", facts.minutes},
                   {"reaches", facts.reaches},
                   {"about", facts.about},
                   {"config", settings_json(config)}});
}

void show(const PresetsOptions& options) {
  std::vector<std::string> names = preset_names();
  if (!options.name.empty()) {
    const std::string text = preset_text(options.name);  // refuses an unknown name
    if (!options.json) {
      std::fputs(text.c_str(), stdout);
      return;
    }
    names = {options.name};
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : names) {
    if (options.json) {
      print_json(name);
      continue;
    }
    const std::string text = preset_text(name);
    const PresetFacts facts = preset_facts(text);
    rows.push_back({name, config_from_toml(text, name).task,
                    format_count(static_cast<double>(facts.parameters)), time_cell(facts.minutes),
                    facts.reaches});
  }
  if (!options.json)
    print_table({{"preset"}, {"task"}, {"params", true}, {"time", true}, {"reaches"}}, rows);
}

}  // namespace

void add_presets(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "presets",
                                  "the presets of linea train: task, size, time and result of each",
                                  "Example:  linea presets digits-demo > mine.toml && linea train "
                                  "--config mine.toml --out RUN\n\n"
                                  "Time is that of two cores of a Zen 5 EPYC; other processors may "
                                  "take twice as long. Times of "
                                  "presets that were not trained to their end are estimates.");
  const auto options = std::make_shared<PresetsOptions>();
  add_option(command, "NAME", options->name, "print the settings of this preset, as TOML");
  set_choices(command, "NAME", preset_names());
  add_flag(command, "--json", options->json, "one JSON object per preset");
  set_action(command, [options, &exit_code] {
    show(*options);
    exit_code = 0;
  });
}

}  // namespace linea
