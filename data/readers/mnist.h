// The `mnist` task: the four published files (or others of their format, such as Fashion-MNIST) in
// one folder. The last twelfth of the training file is val (5,000 of 60,000), t10k is test.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tasks/image_task.h"
#include "data/tasks/task.h"

namespace linea {

// `side` 28 as published, or 14: the mean of 2 x 2 pixels.
ImageSplits read_mnist(const std::filesystem::path& folder, int64_t side);

TaskShape mnist_shape(const TaskOptions& options);
std::unique_ptr<Task> make_mnist_task(const TaskOptions& options);

}  // namespace linea
