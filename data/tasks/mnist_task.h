// The `mnist` task: the images of data/readers/mnist.h. The last twelfth of the training file is
// val (5,000 of 60,000), t10k is test.
#pragma once

#include "data/tasks/task.h"

namespace linea {

TaskEntry mnist_task();

}  // namespace linea
