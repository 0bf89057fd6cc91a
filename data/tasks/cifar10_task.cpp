#include "data/tasks/cifar10_task.h"

#include "data/readers/cifar10.h"
#include "data/tasks/image_task.h"
#include "tensor/error.h"

namespace linea {

TaskShape cifar10_shape(const TaskOptions& options) {
  const int64_t side = options.size == 0 ? kCifar10Side : options.size;
  require(side == kCifar10Side || 2 * side == kCifar10Side || 4 * side == kCifar10Side,
          "cifar10 images of size {}; choose {}, {} or {}", side, kCifar10Side, kCifar10Side / 2,
          kCifar10Side / 4);
  require(options.count == 0, "cifar10 has a fixed number of images; leave the count {} out",
          options.count);
  return image_shape(options, side, options.channels == 0 ? kCifar10Channels : options.channels,
                     kCifar10Classes);
}

std::unique_ptr<Task> make_cifar10_task(const TaskOptions& options) {
  const TaskShape shape = cifar10_shape(options);
  require(!options.data.empty(),
          "task cifar10 reads files; name the folder of its binary batches, or {}, with --data",
          kCifar10Archive);
  return make_image_task(shape, read_cifar10(options.data, shape.side, shape.channels), options);
}

}  // namespace linea
