#include "train/commands.h"

#include <sstream>

#include "data/files.h"
#include "train/format.h"

namespace linea {
namespace {

constexpr const char* kCommandsFile = "commands.txt";

}  // namespace

void record_command(const std::filesystem::path& run, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& line : recorded_commands(run)) text += line + "\n";
  for (const std::string& word : words)
    text += (&word == &words.front() ? "" : " ") + shell_word(word);
  write_file_atomically(run / kCommandsFile, text + "\n");
}

std::vector<std::string> recorded_commands(const std::filesystem::path& run) {
  std::vector<std::string> commands;
  std::error_code error;
  if (!std::filesystem::exists(run / kCommandsFile, error)) return commands;
  std::istringstream text(read_file(run / kCommandsFile));
  for (std::string line; std::getline(text, line);) commands.push_back(line);
  return commands;
}

}  // namespace linea
