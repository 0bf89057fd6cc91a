// RUN/commands.txt: the commands that trained a run, one a line, ready for a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace linea {

// Appends a command. Error: ErrorKind::write.
void record_command(const std::filesystem::path& run, const std::vector<std::string>& words);

// Without its line end; none where nothing was recorded.
std::vector<std::string> recorded_commands(const std::filesystem::path& run);

}  // namespace linea
