#include "train/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "data/files.h"
#include "data/one_line.h"

namespace linea {
namespace {

constexpr const char* kCommandsFile = "commands.txt";

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x80 && std::isalnum(byte) != 0) ||
         std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_word(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  const bool control = std::any_of(word.begin(), word.end(), is_control);
  std::string text = control ? "$'" : "'";
  for (const char c : word) {
    if (control && is_control(c))
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else if (control && (c == '\'' || c == '\\'))
      text += std::string("\\") + c;
    else
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

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
