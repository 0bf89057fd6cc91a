#include "data/tasks/builtin.h"

#include "data/tasks/cifar10_task.h"
#include "data/tasks/copy_task.h"
#include "data/tasks/digits.h"
#include "data/tasks/image_folder_task.h"
#include "data/tasks/listops_task.h"
#include "data/tasks/mnist_task.h"
#include "data/tasks/retrieval_task.h"
#include "data/tasks/text_task.h"

namespace linea {

std::vector<TaskEntry> builtin_tasks() {
  return {digits_task(), mnist_task(), cifar10_task(),   image_folder_task(),
          text_task(),   copy_task(),  retrieval_task(), listops_task()};
}

}  // namespace linea
