// linea compare: every attention on the same tasks.
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "bench/compare.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/program.h"
#include "cli/setting_flags.h"
#include "cli/terminal.h"
#include "data/files.h"
#include "train/format.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

struct CompareOptions {
  bench::CompareRequest request;
  std::string out, resume;
  bool json = false;
};

// The request of DIR, with more attentions.
bench::CompareRequest resumed_request(const CompareOptions& options,
                                      const std::set<std::string>& given) {
  for (const std::string& name : given)
    require(name == "resume" || name == "attentions" || name == "json",
            "--resume continues {} as it was asked for: leave out --{}", options.resume, name);
  const fs::path path = fs::path(options.resume) / "compare.toml";
  std::error_code error;
  if (!fs::exists(path, error))
    fail(ErrorKind::input, "{} holds no comparison; start one with --out {}", options.resume,
         shell_quote(options.resume));
  bench::CompareRequest request = bench::request_from_toml(read_file(path), path.string());
  if (given.count("attentions") != 0) request.attentions += "," + options.request.attentions;
  return request;
}

int run_compare(const CompareOptions& options, const std::set<std::string>& given) {
  TerminalProgress progress;
  if (!options.resume.empty())
    return bench::compare(resumed_request(options, given), options.resume, options.json, version(),
                          progress);
  require(!options.out.empty(), "a new comparison needs --out DIR");
  std::error_code error;
  if (fs::exists(fs::path(options.out) / "compare.toml", error))
    fail(ErrorKind::usage,
         "{} already holds a comparison: continue it with --resume {}, or choose another --out",
         options.out, shell_quote(options.out));
  return bench::compare(options.request, options.out, options.json, version(), progress);
}

}  // namespace

void add_compare(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(
      program, "compare", "train every attention on the same tasks",
      "Example:  linea compare --preset compare-quick --out compared\n\nEach run is one of linea "
      "train, in DIR/TASK/LABEL/seed-S. Softmax always runs. DIR has compare.json, compare.md, "
      "compare.svg and report.html.");
  const auto options = std::make_shared<CompareOptions>();
  bench::CompareRequest& request = options->request;
  add_option(command, "--out", options->out, "the folder to create");
  add_option(command, "--resume", options->resume,
             "continue this comparison; with --attentions, add some");
  exclude_each_other(command, "--out", "--resume");
  add_option(command, "--preset", request.preset, "named tasks and attentions");
  set_choices(command, "--preset", bench::compare_preset_names());
  add_option(command, "--tasks", request.tasks, "comma-separated tasks, or presets of linea train");
  std::vector<std::string> tasks;
  for (const bench::ComparedTask& task : bench::compared_tasks()) tasks.push_back(task.name);
  set_choices(command, "--tasks", tasks);
  add_option(command, "--attentions", request.attentions,
             "comma-separated lists, as in all or softmax,linear:rule=gated,gdn/softmax; / divides "
             "attentions that the layers take in turn",
             OptionKind::shows_default);
  add_option(command, "--seeds", request.seeds, "how many seeds a task has, as in 1 or 1,copy=3",
             OptionKind::shows_default);
  add_option(command, "--lengths", request.lengths,
             "comma-separated positions for which time and memory of a training step are measured",
             OptionKind::shows_default);
  add_option(command, "--references", request.references,
             "published results in the image: lra (Long Range Arena) or none",
             OptionKind::shows_default);
  set_choices(command, "--references", {"lra", "none"});
  add_option(command, "--data", request.data, "the folder of the data sets, or the file of a text");
  add_flag(command, "--json", options->json, "one JSON object per line, of each run");
  add_general_flags(command, request.given, [](const GeneralSetting& general) {
    const std::string& key = general.setting.key;
    return key != "task" && key != "attention" && key != "seed" && key != "sample_every" &&
           key != "judge_samples";
  });
  set_action(command, [options, &command, &exit_code] {
    exit_code = run_compare(*options, given_names(command));
  });
}

}  // namespace linea
