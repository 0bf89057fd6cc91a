// The `text` task: a file with a text (data/readers/text_file.h). Its tokens are its characters
// (data/vocabulary.h), the 256 bytes or byte pairs (data/byte_pairs.h). The first 90% of them, of
// byte pairs the first 90% of the bytes, are train, the rest is val; there is no test. Training
// takes windows at every position, in random order; evaluation takes adjacent windows, so that each
// token of the split is scored once.
#pragma once

#include "data/tasks/task.h"

namespace linea {

TaskEntry text_task();

}  // namespace linea
