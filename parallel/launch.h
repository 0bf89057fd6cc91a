// How the ranks of a program start and end. Without a launcher that says that there are several, no
// library for messages is loaded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/ranks.h"

namespace linea {

// What the launcher's environment says. ranks 0: not known before the library was asked.
struct Launch {
  int ranks = 1, rank = 0;
  std::string launcher;  // "Open MPI's mpirun"; empty: there is none
};
// `variable` reads the environment. Error: ErrorKind::usage, srun of several tasks without --mpi.
Launch detect_launch(const std::function<const char*(const char*)>& variable);

// Once, before other work. On ranks above 0 stdout and stderr lead nowhere. Errors:
// ErrorKind::usage, this program was built without MPI, or with another one than the launcher's.
void start_ranks();
// The exit code of the program.
int end_ranks(int code);
// After an error: rank 0 prints it by `print`, once if all ranks failed; else the rank that failed
// does, and ends all.
int fail_ranks(int code, const std::string& message,
               const std::function<void(const std::string&)>& print);

}  // namespace linea
