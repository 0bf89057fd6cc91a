#include "data/tasks/mnist_task.h"

#include "base/error.h"
#include "data/readers/mnist.h"
#include "data/tasks/image_task.h"

namespace linea {
namespace {

TaskShape mnist_shape(const TaskOptions& options) {
  const int64_t side = options.settings.integer("size");
  require(side == kMnistSide || 2 * side == kMnistSide,
          "`size` is {}; mnist images can have {} or {}", side, kMnistSide, kMnistSide / 2);
  return image_shape(options, side, 1, kMnistClasses);
}

std::unique_ptr<Task> make_mnist_task(const TaskOptions& options) {
  const TaskShape shape = mnist_shape(options);
  const std::string& data = options.settings.text("data");
  require(!data.empty(),
          "task mnist reads files; name the folder of the four MNIST files with `data`");
  return make_image_task(shape, read_mnist(data, shape.side), options);
}

}  // namespace

TaskEntry mnist_task() {
  return {"mnist",
          "handwritten digits (MNIST), 28 x 28 or 14 x 14 pixels",
          image_settings(kMnistSide, kMnistSide, {data_setting("the folder of the four files")}),
          make_mnist_task,
          mnist_shape,
          false,
          "size"};
}

}  // namespace linea
