// linea lab: lessons that run what they teach (lab/), and their exercises.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/program.h"
#include "data/files.h"
#include "lab/answers.h"
#include "lab/markdown.h"
#include "lab/measure.h"
#include "lab/pages.h"
#include "lab/run_page.h"
#include "train/machine.h"
#include "train/record/table.h"

namespace linea {
namespace {

struct LabOptions {
  std::vector<std::string> ids, runs, on;
  std::string exercise, answer, own, out, data, language = "en";
  int64_t hint = 1, seed = 1, threads = 0;
  bool quick = false, chosen = false;  // one of the commands below `lab`
};

void add_language(CLI::App& command, LabOptions& options) {
  add_option(command, "--language", options.language, "of the lessons: en, or zh for Chinese",
             OptionKind::shows_default);
  set_choices(command, "--language", lab::languages());
}

void list_lessons() {
  std::vector<std::vector<std::string>> rows;
  for (const lab::Lesson& lesson : lab::lessons())
    rows.push_back({lesson.id, lesson.title, fmt::format("{:.0f} s", lesson.seconds())});
  print_table({{"lesson"}, {"title"}, {"takes", true}}, rows);
  fmt::print(
      "\nlinea lab run 1 runs a lesson's commands and prints it; lessons with letters continue "
      "those before them.\n");
}

int run_lessons(const LabOptions& options) {
  std::vector<lab::Lesson> asked;
  for (const std::string& id : options.ids)
    if (id == "all")
      asked.insert(asked.end(), lab::lessons().begin(), lab::lessons().end());
    else
      asked.push_back(lab::find_lesson(id));
  const lab::RunOptions how{options.quick, version(), options.language};
  if (!options.out.empty()) lab::check_pages_can_be_made();
  int wrong = 0;
  for (const lab::Lesson& lesson : asked) {
    const lab::Printed printed = lab::print_lesson(lesson, how);
    wrong += printed.wrong;
    if (options.out.empty()) continue;
    lab::write_record(options.out, lesson, how, printed,
                      lab::measure_figures(lesson.id, options.quick));
    lab::write_pages(options.out);  // also of those before, whose links grow
  }
  if (!options.out.empty()) fmt::print("{}/index.html\n", options.out);
  return wrong == 0 ? 0 : static_cast<int>(ErrorKind::numeric);
}

// A lesson of one's own: printed, and a page of it.
int build_lesson(const LabOptions& options) {
  const std::filesystem::path file = options.own;
  require(file.extension() == ".md", "{} must be Markdown, NAME.md", options.own);
  lab::check_pages_can_be_made();
  constexpr int64_t kMaxBytes = int64_t{1} << 20;
  const lab::Lesson lesson =
      lab::own_lesson({file.filename().string(), read_file(file, kMaxBytes)});
  const lab::RunOptions how{options.quick, version(), options.language};
  const lab::Printed printed = lab::print_lesson(lesson, how);
  lab::write_record(options.out, lesson, how, printed, nlohmann::ordered_json::object());
  lab::write_pages(options.out);
  fmt::print("{}/{}.html\n", options.out, lesson.name);
  return printed.wrong == 0 ? 0 : static_cast<int>(ErrorKind::numeric);
}

void add_build(CLI::App& command, const std::shared_ptr<LabOptions>& options, int& exit_code) {
  CLI::App& build = add_command(
      command, "build", "run a lesson of your own and make its page",
      "Example:  linea lab build mine.md --out lab\n\nThe file has the form of those in lessons/: "
      "a "
      "title '# ID \u00b7 TITLE', Markdown, and blocks such as\n\n  ```run 1\n  linea attend --in "
      "lessons/toy.json --causal --show weights\n  ```\n\nwhose commands are run, without a shell. "
      "docs/lab.md lists the kinds of blocks. Exit 4: a command failed, or its output is not what "
      "the lesson expects.");
  add_option(build, "FILE", options->own, "a lesson in Markdown", OptionKind::required);
  add_option(build, "--out", options->out, "the folder of the pages", OptionKind::required);
  add_flag(build, "--quick", options->quick, "shorter versions of what takes long");
  add_language(build, *options);
  set_action(build, [options, &exit_code] {
    options->chosen = true;
    exit_code = build_lesson(*options);
  });
}

void add_page(CLI::App& command, const std::shared_ptr<LabOptions>& options, int& exit_code) {
  CLI::App& page = add_command(
      command, "page", "make pages of your own runs",
      "Example:  linea lab page runs/mine --out lab\n\nSamples the newest model of each run and "
      "shows its curves, the bits of each pixel or token, completions and what heads do.");
  add_option(page, "RUN", options->runs, "folders of linea train", OptionKind::required);
  add_option(page, "--out", options->out, "the folder of the pages", OptionKind::required);
  add_option(page, "--on", options->on,
             "images, test:7 of the run's data or PNG and JPEG files (where no class is given), or "
             "one text; default: the first of the data");
  add_option(page, "--data", options->data, "the data of the runs, if moved since training");
  add_option(page, "--seed", options->seed, "of what is sampled", OptionKind::shows_default);
  add_option(page, "--threads", options->threads, "0: all cores", OptionKind::shows_default);
  set_action(page, [options, &exit_code] {
    options->chosen = true;
    lab::check_pages_can_be_made();
    use_machine(options->threads, "cpu");
    for (const std::string& folder : options->runs) {
      const std::string name = lab::write_run_record(
          options->out, {folder, options->on, options->data, options->seed, version()});
      lab::write_pages(options->out);
      fmt::print("{}/{}.html\n", options->out, name);
    }
    exit_code = 0;
  });
}

}  // namespace

void add_lab(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<LabOptions>();
  CLI::App& command = add_command(
      program, "lab", "lessons on linear attention that run what they teach",
      "Example:  linea lab\n          linea lab run 1 2 3\n          linea lab run all --out lab\n"
      "          linea lab page runs/mine --out lab\n"
      "          linea lab build mine.md --out lab\n"
      "          linea lab check 3.1 17\n\n"
      "Lessons use files of lessons/ in this folder; those that are missing are written there.");
  CLI::App& run = add_command(command, "run", "print lessons, with the output of their commands",
                              "Example:  linea lab run 1\n\nExit 4: a command failed, or its "
                              "output is not what the lesson says "
                              "(were files in lessons/ changed?).");
  add_option(run, "LESSON", options->ids, "numbers and letters of lessons, or all",
             OptionKind::required);
  add_language(run, *options);
  add_flag(run, "--quick", options->quick, "shorter versions of what takes long");
  add_option(run, "--out", options->out,
             "also write pages of what was run to this folder, to be opened in a browser");
  set_action(run, [options, &exit_code] {
    options->chosen = true;
    exit_code = run_lessons(*options);
  });
  add_page(command, options, exit_code);
  add_build(command, options, exit_code);
  CLI::App& render =
      add_command(command, "render", "make the pages again from the records of the runs",
                  "Example:  linea lab render --out lab\n\nReads lab/data; nothing is run.");
  add_option(render, "--out", options->out, "the folder of `linea lab run --out`",
             OptionKind::required);
  set_action(render, [options, &exit_code] {
    options->chosen = true;
    require(lab::write_pages(options->out) > 0,
            "{0}/data has no record of a lesson: run one with linea lab run 1 --out {0}",
            options->out);
    fmt::print("{}/index.html\n", options->out);
    exit_code = 0;
  });
  CLI::App& check =
      add_command(command, "check", "check the answer to an exercise",
                  "Example:  linea lab check 3.1 17\n\nExit 0: right; 1: not yet, with a hint.");
  add_option(check, "EXERCISE", options->exercise, "such as 3.1", OptionKind::required);
  add_option(check, "ANSWER", options->answer, "a number, or a file", OptionKind::required);
  add_option(check, "--hint", options->hint,
             "which hint, if it is wrong: 1, 2, or 3, where to read", OptionKind::shows_default);
  add_language(check, *options);
  set_action(check, [options, &exit_code] {
    options->chosen = true;
    exit_code =
        lab::check_answer(options->exercise, options->answer, options->hint, options->language) ? 0
                                                                                                : 1;
  });
  set_action(command, [options, &exit_code] {
    if (options->chosen) return;  // what was asked for has run
    list_lessons();
    exit_code = 0;
  });
}

}  // namespace linea
