// linea train: starts a run from settings or resumes one.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/system.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/setting_flags.h"
#include "cli/terminal.h"
#include "data/files.h"
#include "judge/sample_judge.h"
#include "parallel/ranks.h"
#include "train/commands.h"
#include "train/config.h"
#include "train/format.h"
#include "train/run/checkpoint.h"
#include "train/run/dry_run.h"
#include "train/run/out_of_memory_hint.h"
#include "train/run/trainer.h"

namespace linea {
namespace {

struct TrainOptions {
  Settings given;                            // flags as texts, by key
  std::map<std::string, int64_t> positions;  // of the flags
  std::string preset, out, resume, initial;
  std::vector<std::string> config_files;
  bool json = false, dry_run = false, no_memory_check = false;
};

// The settings of a run. Error: ErrorKind::input where this version cannot read them.
SettingLayer saved_layer(const std::string& text, const std::string& source) try {
  SettingLayer layer = parse_toml(text, source);
  static_cast<void>(resolve({layer}));
  return layer;
} catch (const Error& error) {
  fail(ErrorKind::input, "{}", error.what());
}

// defaults < the settings of --resume or --init-from < --preset < --config < flags
RunConfig gather_settings(const TrainOptions& options) {
  std::vector<SettingLayer> layers;
  if (!options.initial.empty()) {
    require(options.resume.empty(),
            "--init-from starts a new run, --resume continues one: choose one of them");
    layers.push_back(
        saved_layer(ranks().from_main("the run", [&] { return saved_settings(options.initial); }),
                    options.initial));
  }
  if (!options.resume.empty()) {
    require(options.preset.empty() && options.config_files.empty() && options.out.empty(),
            "--resume uses the settings and folder of {}: leave out --preset, --config and "
            "--out",
            options.resume);
    const std::string path = options.resume + "/config.toml";
    layers.push_back(saved_layer(ranks().from_main("the run",
                                                   [&] {
                                                     refuse_other_format(options.resume);
                                                     return read_file(path);
                                                   }),
                                 path));
  }
  if (!options.preset.empty())
    layers.push_back(parse_toml(preset_text(options.preset), "preset " + options.preset));
  for (const std::string& file : options.config_files)
    layers.push_back(parse_toml(read_file(file), file));
  layers.push_back({options.given, "", options.positions});
  const RunConfig config = resolve(layers);
  const bool resume = !options.resume.empty();
  if (const std::string& run = resume ? options.resume : options.initial; !run.empty())
    refuse_changes(resolve({layers.front()}), config, run,
                   resume ? MayChange::on_resume : MayChange::by_init_from);
  return config;
}

// Where a finished run left its files, and the command that uses them.
void show_next(const Task& task, const std::string& run, TerminalProgress& progress) {
  std::error_code ignored;
  progress.note(fmt::format("checkpoints in {0}/checkpoints{1}", run,
                            std::filesystem::is_empty(run + "/samples", ignored)
                                ? ""
                                : fmt::format(", samples in {}/samples", run)));
  const bool answers = task.shape().answer_tokens > 0, images = task.shape().side > 0 && !answers;
  const bool has_text = !images && !answers && !task.serialized_vocabulary().empty();
  progress.note(fmt::format("next: linea {} {}{}", has_text || images ? "sample" : "eval",
                            shell_quote(run), images ? " --out grid.png" : ""));
}

// Without it training continues.
void record_this_command(const std::string& run, TerminalProgress& progress) try {
  record_command(run, command_line());
} catch (const Error& error) {
  progress.note(fmt::format("the command is not recorded: {}", error.what()));
}

// The exit code.
int run(const RunConfig& config, const TrainOptions& options) {
  const bool resume = !options.resume.empty();
  if (options.dry_run) {
    if (!options.out.empty()) refuse_existing_run(options.out);
    dry_run(config, options.resume, options.initial, options.json);
    return 0;
  }
  require(resume || !options.out.empty(), "a new run needs --out FOLDER");
  TerminalProgress progress(!options.json);
  const std::string& folder = resume ? options.resume : options.out;
  Trainer trainer(config, folder, resume, options.json, progress, options.initial,
                  !options.no_memory_check);
  const bool main = ranks().is_main();
  if (main && config.judge_samples > 0)
    trainer.judge_by(sample_judge(config, trainer.task(), progress));
  if (main) record_this_command(folder, progress);
  const int exit_code = trainer.run();
  if (main && exit_code == 0) show_next(trainer.task(), folder, progress);
  return exit_code;
}

}  // namespace

void add_train(CLI::App& program, int& exit_code) {
  CLI::App& command =
      add_command(program, "train", "train a model; writes a run folder",
                  "Example:  linea train --preset digits-demo --out runs/digits\n"
                  "linea train --attention NAME --help shows only the settings of that attention.\n"
                  "A flag given twice is an error, but for --config; of two that contradict each "
                  "other, such as\n"
                  "--bias and --no-bias, the later wins. Flags override files.");
  const auto options = std::make_shared<TrainOptions>();
  add_option(command, "--out", options->out, "run folder to create; must not contain a run");
  add_option(command, "--resume", options->resume, "continue this run from its newest checkpoint");
  add_option(command, "--init-from", options->initial,
             "start from the weights and settings of this run; attention and sizes may differ");
  add_option(command, "--preset", options->preset, "named settings");
  set_choices(command, "--preset", preset_names());
  add_option(command, "--config", options->config_files,
             "settings from a TOML file, such as RUN/config.toml; given more than once, a later "
             "file overrides an earlier one",
             OptionKind::repeatable);
  add_flag(command, "--json", options->json, "metrics as JSON lines on stdout");
  add_flag(command, "--dry-run", options->dry_run,
           "print the model, memory and time of the run; write nothing");
  add_flag(command, "--no-memory-check", options->no_memory_check,
           "start a run that seems not to fit into memory");
  add_general_flags(command, options->given, [](const GeneralSetting&) { return true; });
  add_mechanism_flags(command, options->given, {"task", "attention", "optimizer"});
  set_action(command, [options, &command, &exit_code] {
    options->positions = positions_of(command);
    const RunConfig config = gather_settings(*options);
    with_out_of_memory_hint(config, [&] { exit_code = run(config, *options); });
  });
}

}  // namespace linea
