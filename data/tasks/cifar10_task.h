// The `cifar10` task: the images of data/readers/cifar10.h. The last tenth of the training records
// is val (5,000 of 50,000).
#pragma once

#include <memory>

#include "data/tasks/task.h"

namespace linea {

TaskShape cifar10_shape(const TaskOptions& options);
std::unique_ptr<Task> make_cifar10_task(const TaskOptions& options);

}  // namespace linea
