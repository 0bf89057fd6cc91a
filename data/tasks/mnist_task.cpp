#include "data/tasks/mnist_task.h"

#include "data/readers/mnist.h"
#include "data/tasks/image_task.h"
#include "tensor/error.h"

namespace linea {

TaskShape mnist_shape(const TaskOptions& options) {
  const int64_t side = options.size == 0 ? kMnistSide : options.size;
  require(side == kMnistSide || 2 * side == kMnistSide, "mnist images of size {}; choose {} or {}",
          side, kMnistSide, kMnistSide / 2);
  require(options.count == 0, "mnist has a fixed number of images; leave the count {} out",
          options.count);
  return image_shape(options, side, 1, kMnistClasses);
}

std::unique_ptr<Task> make_mnist_task(const TaskOptions& options) {
  const TaskShape shape = mnist_shape(options);
  require(!options.data.empty(),
          "task mnist reads files; name the folder of the four MNIST files with --data");
  return make_image_task(shape, read_mnist(options.data, shape.side), options);
}

}  // namespace linea
