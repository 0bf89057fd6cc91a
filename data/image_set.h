// Images and their labels in memory, and operations that readers of images share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace linea {

// `labels.size()` consecutive images of side x side x channels bytes; the channels of a pixel (1:
// gray, 3: red, green, blue) are adjacent.
struct ImageSet {
  int64_t side = 0, channels = 1;
  std::vector<uint8_t> pixels, labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_bytes() const { return side * side * channels; }
};

struct ImageSplits {
  ImageSet train, val, test;
};

// Y = 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), rounded
inline uint8_t luma(int red, int green, int blue) {
  return static_cast<uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

// Moves the last `count` images into a new set.
ImageSet split_off(ImageSet& set, int64_t count);

// Moves the last 1 / `parts` of the training images, at least one, into val. Error:
// ErrorKind::input where there are fewer than two; it begins with `name`.
void split_off_val(ImageSplits& splits, int64_t parts, const std::string& name);

// Appends the images of `more`, of the same side and channels, to `set`.
void append(ImageSet& set, const ImageSet& more);

// Each pixel is the mean of f x f old ones; f = set.side / side must be an integer.
ImageSet shrink(const ImageSet& set, int64_t side);

}  // namespace linea
