// Images and their labels in memory, and what every reader of images does with them.
#pragma once

#include <cstdint>
#include <vector>

namespace linea {

// `labels.size()` images of side x side x channels bytes, one after another; a pixel's channels
// (1: gray, 3: red, green, blue) stand together.
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

// Moves the last `count` images into a set of their own.
ImageSet split_off(ImageSet& set, int64_t count);

// Puts the images of `more`, of the same side and channels, behind those of `set`.
void append(ImageSet& set, const ImageSet& more);

// Each pixel the mean of f x f old ones, f = set.side / side, which must be whole.
ImageSet shrink(const ImageSet& set, int64_t side);

}  // namespace linea
