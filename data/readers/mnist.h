// MNIST: the four published files (or others of their format, such as Fashion-MNIST) in one folder,
// or each in a folder of its name there, as Kaggle unpacks them.
// The last twelfth of the training file becomes val (5,000 of 60,000); t10k is test.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/image_set.h"

namespace linea {

constexpr int64_t kMnistSide = 28, kMnistClasses = 10;

// `side`: 28 as published, or 14 (the mean of 2 x 2 pixels).
ImageSplits read_mnist(const std::filesystem::path& folder, int64_t side);

}  // namespace linea
