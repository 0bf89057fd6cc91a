// PNG and JPEG files as small square images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace linea {

constexpr int64_t kMaxImageBytes = int64_t{1} << 26;   // of a file
constexpr int64_t kMaxImagePixels = int64_t{1} << 26;  // of an image, before it is cropped
constexpr int64_t kMaxImageSide = 4096;                // of the requested image

// The central square of the image, as side x side x channels bytes, row by row, with the channels
// of a pixel adjacent. channels 1: gray, by the luma of ITU-R BT.601; 3: red, green, blue (equal
// for a gray image). Resized by area: a pixel is the mean of the stored values it covers, when
// shrinking and when enlarging. 16-bit values are reduced to 8 bits, palettes are expanded,
// transparent pixels are blended with white, and the image is turned as its EXIF data say. An input
// error names the file and the reason: neither PNG nor JPEG, of a kind that is not supported,
// damaged, truncated, or too large, which the file's size and its header show before anything is
// unpacked.
std::vector<uint8_t> read_image(const std::filesystem::path& path, int64_t side, int64_t channels);

// read_image for a file's bytes; errors begin with `name`.
std::vector<uint8_t> decode_image(std::string bytes, const std::string& name, int64_t side,
                                  int64_t channels);

}  // namespace linea
