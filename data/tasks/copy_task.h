// The `copy` task: repeat a random string. With n = length / 2 - 1,
//   inputs   sep x1 .. xn sep x1 .. xn        targets[t] = inputs[t + 1]
// and only the second copy (t = n + 1 .. 2n) is scored: a model without memory scores log
// `copy_tokens`. With 127 tokens this is the duplication task of Kitaev 2020, "Reformer: the
// efficient Transformer", section 5.
#pragma once

#include "data/tasks/task.h"

namespace linea {

TaskEntry copy_task();

}  // namespace linea
