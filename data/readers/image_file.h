// PNG and JPEG files as small square images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace linea {

constexpr int64_t kMaxImageBytes = int64_t{1} << 26;   // of a file
constexpr int64_t kMaxImagePixels = int64_t{1} << 26;  // of a image, before it is cropped
constexpr int64_t kMaxImageSide = 4096;                // of what is asked for

// The square in the middle of the image, as side x side x channels bytes, row by row, a pixel's
// channels together. channels 1: gray, by the luma of ITU-R BT.601; 3: red, green, blue (a gray
// image has three equal ones). A pixel is the mean of what it covers, of stored values: when
// shrinking and when enlarging. 16 bits become 8, a palette its colors; what is transparent lies
// on white. A note of how a camera was held (EXIF) is not followed. An input error names the file
// and the reason: neither PNG nor JPEG, damaged, cut, or too large, which is known from the file's
// size and its header before anything is unpacked.
std::vector<uint8_t> read_image(const std::filesystem::path& path, int64_t side, int64_t channels);

// The same for a file's bytes; `name` stands in errors.
std::vector<uint8_t> decode_image(const std::string& bytes, const std::string& name, int64_t side,
                                  int64_t channels);

}  // namespace linea
