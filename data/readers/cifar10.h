// CIFAR-10's binary batches, data_batch_1.bin to data_batch_5.bin (or the first of them) and
// test_batch.bin, or the published cifar-10-binary.tar.gz, read without unpacking it. A record is a
// label (0 to 9) and the red, green and blue planes of 32 x 32 bytes. The last tenth of the
// training records becomes val (5,000 of 50,000).
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/image_set.h"

namespace linea {

constexpr int64_t kCifar10Side = 32, kCifar10Channels = 3, kCifar10Classes = 10;
constexpr const char* kCifar10Archive = "cifar-10-binary.tar.gz";

// `path`: the archive, or a folder that holds the batches, cifar-10-batches-bin or the archive.
// `side`: 32 as published, 16 or 8 (the mean of 2 x 2 or 4 x 4 pixels). `channels`: 3, or 1 (luma).
ImageSplits read_cifar10(const std::filesystem::path& path, int64_t side, int64_t channels);

}  // namespace linea
