// linea train: starts a run from settings or resumes one.
#include <memory>
#include <set>
#include <string>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "data/files.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/dry_run.h"
#include "train/out_of_memory_hint.h"
#include "train/trainer.h"

namespace linea {
namespace {

struct TrainOptions {
  RunConfig config;
  std::string preset, config_file, out, resume, initial;
  bool json = false, dry_run = false;
};

// Settings that mean something to one attention only.
const std::set<std::string> kOfOneAttention = {"feature",    "rule",     "nu",        "features",
                                               "projection", "redraw",   "codes",     "sigma",
                                               "anneal",     "codebook", "commitment"};

// The attention that flags, file and preset ask for; where they ask for none, that of `source`.
std::string attention_asked_for(const TrainOptions& options, const std::set<std::string>& flags,
                                const RunConfig& source) {
  if (flags.count("attention") != 0) return options.config.attention;
  RunConfig asked = source;
  if (!options.preset.empty())
    apply_toml(asked, preset_text(options.preset), "preset " + options.preset);
  if (!options.config_file.empty())
    apply_toml(asked, read_file(options.config_file), options.config_file);
  return asked.attention;
}

// defaults < the settings of --resume or --init-from < --preset < --config < flags
void gather_settings(CLI::App& command, TrainOptions& options) {
  std::set<std::string> fixed = given_settings(command);
  if (!options.initial.empty()) {
    require(options.resume.empty(),
            "--init-from starts a new run, --resume continues one: choose one of them");
    const std::string text = saved_settings(options.initial);
    const RunConfig source = config_from_toml(text, options.initial);
    std::set<std::string> skipped = fixed;
    if (attention_asked_for(options, fixed, source) != source.attention)
      skipped.insert(kOfOneAttention.begin(), kOfOneAttention.end());
    apply_toml(command, text, options.initial, skipped);
  }
  if (!options.resume.empty()) {
    require(options.preset.empty() && options.config_file.empty() && options.out.empty(),
            "--resume uses the settings and folder of {}: leave out --preset, --config and "
            "--out",
            options.resume);
    refuse_other_format(options.resume);
    const std::string path = options.resume + "/config.toml";
    apply_toml(command, read_file(path), path, fixed);
  }
  if (!options.preset.empty())
    apply_toml(command, preset_text(options.preset), "preset " + options.preset, fixed);
  if (!options.config_file.empty())
    apply_toml(command, read_file(options.config_file), options.config_file, fixed);
}

// The exit code.
int run(const TrainOptions& options) {
  const bool resume = !options.resume.empty();
  if (options.dry_run) {
    if (!options.out.empty()) refuse_existing_run(options.out);
    dry_run(options.config, options.resume, options.initial, options.json);
    return 0;
  }
  require(resume || !options.out.empty(), "a new run needs --out FOLDER");
  TerminalProgress progress;
  Trainer trainer(options.config, resume ? options.resume : options.out, resume, options.json,
                  progress, options.initial);
  return trainer.run();
}

}  // namespace

void add_train(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "train", "train a model; writes a run folder");
  const auto options = std::make_shared<TrainOptions>();
  add_option(command, "--out", options->out, "run folder to create; must not contain a run");
  add_option(command, "--resume", options->resume, "continue this run from its newest checkpoint");
  add_option(command, "--init-from", options->initial,
             "start from the weights and settings of this run; the attention may differ");
  add_option(command, "--preset", options->preset, "named settings");
  set_choices(command, "--preset", preset_names());
  add_option(command, "--config", options->config_file,
             "settings from a TOML file, such as RUN/config.toml");
  add_flag(command, "--json", options->json, "metrics as JSON lines on stdout");
  add_flag(command, "--dry-run", options->dry_run,
           "print the model, memory and time of the run; write nothing");
  add_settings(command, options->config);
  set_choices(command, "--attention", attention_names());
  set_action(command, [&command, options, &exit_code] {
    gather_settings(command, *options);
    with_out_of_memory_hint(options->config, [&] { exit_code = run(*options); });
  });
}

}  // namespace linea
