// RUN/commands.txt: the commands that trained a run, one a line, ready for a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace linea {

// A word as a POSIX shell reads it: as it is where it has only letters, digits and _@%+=:,./-,
// else in single quotes; $'...' where it has control characters.
std::string shell_word(const std::string& word);

// Appends a command. Error: ErrorKind::write.
void record_command(const std::filesystem::path& run, const std::vector<std::string>& words);

// Without its line end; none where nothing was recorded.
std::vector<std::string> recorded_commands(const std::filesystem::path& run);

}  // namespace linea
