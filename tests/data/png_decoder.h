// A decoder of PNG files, independent of that of the program.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace linea {

inline uint32_t big_endian(const std::string& bytes, size_t position) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(position + i));
  return value;
}

struct Png {
  uint32_t width = 0, height = 0;
  int channels = 0;
  std::vector<uint8_t> bytes;
};

// Enough of a PNG decoder for what the writer makes: 8 bits, gray or RGB, the five line filters.
inline Png decode_png(const std::string& file) {
  Png png;
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string packed;
  for (size_t position = 8; position < file.size();) {
    const uint32_t length = big_endian(file, position);
    const std::string kind = file.substr(position + 4, 4);
    const std::string content = file.substr(position + 8, length);
    const auto* checked = reinterpret_cast<const Bytef*>(file.data() + position + 4);
    EXPECT_EQ(crc32(0, checked, length + 4), big_endian(file, position + 8 + length)) << kind;
    if (kind == "IHDR") {
      png.width = big_endian(content, 0);
      png.height = big_endian(content, 4);
      EXPECT_EQ(content[8], 8);
      png.channels = content[9] == 2 ? 3 : 1;
    }
    if (kind == "IDAT") packed += content;
    position += 12 + length;
  }
  const size_t bytes_per_pixel = static_cast<size_t>(png.channels);
  const size_t line = png.width * bytes_per_pixel;
  std::vector<uint8_t> raw(png.height * (line + 1));
  uLongf size = raw.size();
  EXPECT_EQ(
      uncompress(raw.data(), &size, reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
      Z_OK);
  EXPECT_EQ(size, raw.size());
  png.bytes.resize(png.height * line);
  const auto at = [&](size_t y, size_t x) { return int{png.bytes[y * line + x]}; };
  for (size_t y = 0; y < png.height; ++y)
    for (size_t x = 0; x < line; ++x) {
      const int left = x < bytes_per_pixel ? 0 : at(y, x - bytes_per_pixel);
      const int up = y == 0 ? 0 : at(y - 1, x);
      const int corner = x < bytes_per_pixel || y == 0 ? 0 : at(y - 1, x - bytes_per_pixel);
      const int to_left = std::abs(up - corner), to_up = std::abs(left - corner),
                to_corner = std::abs(left + up - 2 * corner);
      const int paeth = to_left <= to_up && to_left <= to_corner ? left
                        : to_up <= to_corner                     ? up
                                                                 : corner;
      const int guesses[] = {0, left, up, (left + up) / 2, paeth};
      const int guess = guesses[raw[y * (line + 1)]];
      png.bytes[y * line + x] = static_cast<uint8_t>(raw[y * (line + 1) + 1 + x] + guess);
    }
  return png;
}

}  // namespace linea
