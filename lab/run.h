// Runs the commands of lessons with this program, and prints a lesson with their output.
#pragma once

#include <string>
#include <vector>

#include "lab/lesson.h"

namespace linea::lab {

struct RunOptions {
  bool quick = false;     // shorter versions of what takes long
  std::string version{};  // of this program
  std::string language = "en";
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

// A command of a lesson, and what became of what the lesson says of its output.
struct Ran {
  std::string command;
  bool quick = false;  // the shorter version
  Output output{};
  std::vector<std::string> as_expected{};  // kinds of expectations that hold
  std::string differs{};                   // the first that does not, or an exit code; empty: none
};
struct Printed {
  int wrong = 0;  // commands that failed or gave something else than the lesson expects
  double seconds = 0;
  std::vector<Ran> runs{};
};

// Prints the lesson as a page of text, each command with its output; the reasons of what is wrong
// on stderr.
Printed print_lesson(const Lesson& lesson, const RunOptions& options);

}  // namespace linea::lab
