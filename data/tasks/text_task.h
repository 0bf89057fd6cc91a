// The `text` task: a file with a text (data/readers/text_file.h). Its tokens are its characters
// (data/vocabulary.h) or, with `bytes`, the 256 bytes. The first 90% of them are train,
// the rest is val; there is no test. Training takes windows at every position, in random order;
// evaluation takes adjacent windows, so that each token of the split is scored once.
#pragma once

#include "data/tasks/task.h"

namespace linea {

TaskEntry text_task();

}  // namespace linea
