// The tasks of this folder.
#pragma once

#include <vector>

#include "data/tasks/task.h"

namespace linea {

// What the registry of data/tasks/task.cpp begins with, in the order of help. A program with a list of its
// own (web/live.cpp) leaves data/tasks/builtin.cpp out.
std::vector<TaskEntry> builtin_tasks();

}  // namespace linea
