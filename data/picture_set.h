// Pictures and their labels in memory, and what every reader of pictures does with them.
#pragma once

#include <cstdint>
#include <vector>

namespace linea {

// `labels.size()` pictures of side x side x channels bytes, one after another; a pixel's channels
// (1: grey, 3: red, green, blue) stand together.
struct PictureSet {
  int64_t side = 0, channels = 1;
  std::vector<uint8_t> pixels, labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  int64_t picture_bytes() const { return side * side * channels; }
};

struct PictureSplits {
  PictureSet train, val, test;
};

// Y = 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), rounded
inline uint8_t luma(int red, int green, int blue) {
  return static_cast<uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

// Moves the last `count` pictures into a set of their own.
PictureSet split_off(PictureSet& set, int64_t count);

// Puts the pictures of `more`, of the same side and channels, behind those of `set`.
void append(PictureSet& set, const PictureSet& more);

// Each pixel the mean of f x f old ones, f = set.side / side, which must be whole.
PictureSet shrink(const PictureSet& set, int64_t side);

}  // namespace linea
