// Runs the commands of lessons with this program, and prints a lesson with their output.
#pragma once

#include <string>

#include "lab/lesson.h"

namespace linea::lab {

struct RunOptions {
  bool quick = false;  // shorter versions of what takes long
};

struct Output {
  std::string text;  // of stdout; stderr is shared
  int exit_code = 0;
  double seconds = 0;
};

// A line "linea ...", without a shell. Its files in lessons/ that are missing here are written
// first. Error: ErrorKind::input, the program does not start.
Output run_command(const std::string& command);
Output run_words(const std::vector<std::string>& words);  // the words of such a line

// Prints the lesson as a page of text, each command with its output. -> how many commands failed or
// gave something else than the lesson expects, each with the reason on stderr.
int print_lesson(const Lesson& lesson, const RunOptions& options);

}  // namespace linea::lab
