// linea data: the published data sets: what there is, how to get one, whether files are the
// published ones.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "data/catalog.h"
#include "data/download.h"
#include "data/json.h"
#include "train/format.h"
#include "train/record/table.h"

namespace linea {
namespace {

struct DataOptions {
  std::string name, folder;
  bool json = false;
};

void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

int64_t total_bytes(const DataSet& set) {
  int64_t bytes = 0;
  for (const PublishedFile& file : set.files) bytes += file.bytes;
  return bytes;
}

void print_files(const DataSet& set) {
  print(fmt::format("{}: {}; --task {}", set.name, set.about, set.task));
  for (const PublishedFile& file : set.files) {
    print(fmt::format("  {}  {} bytes", file.name, file.bytes));
    print(fmt::format("    sha256 {}", file.sha256.empty() ? "not published" : file.sha256));
    for (const UnpackedFile& content : file.unpacked)
      if (!content.md5.empty()) print(fmt::format("    md5 of its content {}", content.md5));
    for (const std::string& source : file.sources) print("    " + source);
  }
}

void print_json(const DataSet& set) {
  for (const PublishedFile& file : set.files)
    print(dump_json(nlohmann::ordered_json{{"set", set.name},
                                           {"task", set.task},
                                           {"file", file.name},
                                           {"bytes", file.bytes},
                                           {"sha256", file.sha256},
                                           {"sources", file.sources}}));
}

// A line for each set, or all of one set.
void list(const DataOptions& options) {
  std::vector<DataSet> sets = catalog();
  if (!options.name.empty()) sets = {find_data_set(options.name)};
  for (const DataSet& set : sets) {
    if (options.json) {
      print_json(set);
    } else if (!options.name.empty()) {
      print_files(set);
    } else {
      print_wrapped(
          fmt::format("{:<16} {:>10}  --task {:<8} {}", set.name,
                      format_bytes(static_cast<double>(total_bytes(set))), set.task, set.about),
          44);
    }
  }
}

void print_report(const FileReport& report, bool json) {
  if (json) {
    nlohmann::ordered_json line{{"set", report.set},
                                {"file", report.file},
                                {"state", to_string(report.state)},
                                {"by", report.criterion}};
    if (report.state == FileState::differs) {
      line["expected"] = report.expected;
      line["found"] = report.found;
    }
    print(dump_json(line));
    return;
  }
  std::string line =
      fmt::format("{:<16} {:<36} {}", report.set, report.file, to_string(report.state));
  if (!report.criterion.empty()) line += fmt::format(" ({})", report.criterion);
  if (report.state == FileState::differs)
    line += fmt::format(": found {}, published is {}", report.found, report.expected);
  print(line);
}

void verify(const DataOptions& options) {
  int64_t wrong = 0;
  const std::vector<FileReport> reports = verify_folder(options.folder);
  for (const FileReport& report : reports) {
    print_report(report, options.json);
    wrong += report.state == FileState::differs || report.state == FileState::missing;
  }
  if (wrong > 0)
    fail(ErrorKind::input,
         "{}: {} of {} files are missing or differ from the published ones; download them again",
         options.folder, wrong, reports.size());
}

void get(const DataOptions& options) {
  const DataSet& set = find_data_set(options.name);
  const std::string folder = options.folder.empty() ? "datasets/" + set.name : options.folder;
  TerminalProgress progress;
  get_data_set(set, folder, download_by_curl,
               [&](const std::string& line) { progress.note(line); });
  for (const PublishedFile& file : set.files)
    for (const FileReport& report : check_file(set, file, folder))
      print_report(report, options.json);
  const bool one_text = set.task == "text";
  progress.note(fmt::format("train on it with: linea train --task {} --data {}", set.task,
                            shell_quote(one_text ? folder + "/" + set.files[0].name : folder)));
}

}  // namespace

void add_data(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "data", "list, download and verify published data sets",
                                  "Example:  linea data list");
  require_command(command);
  const auto options = std::make_shared<DataOptions>();
  CLI::App& list_command =
      add_command(command, "list", "list data sets; of one set: files, checksums and addresses",
                  "Example:  linea data list mnist");
  add_option(list_command, "NAME", options->name, "the set; default: a line for each");
  std::vector<std::string> names;
  for (const DataSet& set : catalog()) names.push_back(set.name);
  set_choices(list_command, "NAME", names);
  add_flag(list_command, "--json", options->json, "one JSON object per file on stdout");
  CLI::App& get_command =
      add_command(command, "get", "download a data set with curl and verify its checksums",
                  "Example:  linea data get mnist --out datasets/mnist");
  add_option(get_command, "NAME", options->name, "data set name, as in `linea data list`",
             OptionKind::required);
  set_choices(get_command, "NAME", names);
  add_option(get_command, "--out", options->folder, "folder for the files; default: datasets/NAME");
  add_flag(get_command, "--json", options->json, "one JSON object per file on stdout");
  CLI::App& verify_command =
      add_command(command, "verify", "verify the files of a folder against the published checksums",
                  "Example:  linea data verify datasets/mnist");
  add_option(verify_command, "DIR", options->folder, "the folder", OptionKind::required);
  add_flag(verify_command, "--json", options->json, "one JSON object per file on stdout");
  const auto runs = [options, &exit_code](auto action) {
    return [options, &exit_code, action] {
      action(*options);
      exit_code = 0;
    };
  };
  set_action(list_command, runs(list));
  set_action(get_command, runs(get));
  set_action(verify_command, runs(verify));
}

}  // namespace linea
