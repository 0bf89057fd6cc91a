#include "data/tasks/cifar10_task.h"

#include "base/error.h"
#include "data/readers/cifar10.h"
#include "data/tasks/image_task.h"

namespace linea {
namespace {

TaskShape cifar10_shape(const TaskOptions& options) {
  const int64_t side = options.settings.integer("size");
  require(side == kCifar10Side || 2 * side == kCifar10Side || 4 * side == kCifar10Side,
          "`size` is {}; cifar10 images can have {}, {} or {}", side, kCifar10Side,
          kCifar10Side / 2, kCifar10Side / 4);
  return image_shape(options, side, image_channels(options), kCifar10Classes);
}

std::unique_ptr<Task> make_cifar10_task(const TaskOptions& options) {
  const TaskShape shape = cifar10_shape(options);
  const std::string& data = options.settings.text("data");
  require(!data.empty(),
          "task cifar10 reads files; name the folder of its binary batches, or {}, with `data`",
          kCifar10Archive);
  return make_image_task(shape, read_cifar10(data, shape.side, shape.channels), options);
}

}  // namespace

TaskEntry cifar10_task() {
  return {
      "cifar10",
      "photographs of ten classes (CIFAR-10), 32 x 32, 16 x 16 or 8 x 8 pixels",
      image_settings(kCifar10Side, kCifar10Side,
                     {channels_setting(), gray_setting(),
                      data_setting("the folder of the binary batches, or the archive")}),
      make_cifar10_task,
      cifar10_shape,
      false,
      "size",
      false,
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}};
}

}  // namespace linea
