// The `cifar10` task: the images of data/readers/cifar10.h. The last tenth of the training records
// is val (5,000 of 50,000).
#pragma once

#include "data/tasks/task.h"

namespace linea {

TaskEntry cifar10_task();

}  // namespace linea
