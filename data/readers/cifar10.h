// The `cifar10` task: CIFAR-10's binary batches, data_batch_1.bin to data_batch_5.bin (or the first
// of them) and test_batch.bin, or the published cifar-10-binary.tar.gz, which is read as it is. A
// record is a label (0 to 9) and the red, green and blue planes of 32 x 32 bytes. The last tenth of
// the training records is val (5,000 of 50,000).
#pragma once

#include <filesystem>
#include <memory>

#include "data/image_set.h"
#include "data/tasks/task.h"

namespace linea {

// `path`: the archive, or a folder that holds the batches, cifar-10-batches-bin or the archive.
// `side` 32 as published, 16 or 8: the mean of 2 x 2 or 4 x 4 pixels. `channels` 3, or 1: luma.
ImageSplits read_cifar10(const std::filesystem::path& path, int64_t side, int64_t channels);

TaskShape cifar10_shape(const TaskOptions& options);
std::unique_ptr<Task> make_cifar10_task(const TaskOptions& options);

}  // namespace linea
