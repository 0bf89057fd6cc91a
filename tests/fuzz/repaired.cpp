#include "tests/fuzz/repaired.h"

#include <fmt/format.h>
#include <zlib.h>

#include <string_view>

namespace linea::fuzz {
namespace {

size_t big_endian(const std::string& bytes, size_t position) {
  size_t number = 0;
  for (size_t i = position; i < position + 4; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

}  // namespace

std::string with_tar_checksums(std::string bytes) {
  constexpr size_t kBlock = 512, kMark = 257, kChecksum = 148, kLength = 8;
  for (size_t start = 0; start + kBlock <= bytes.size(); start += kBlock) {
    if (std::string_view(bytes).substr(start + kMark, 5) != "ustar") continue;
    bytes.replace(start + kChecksum, kLength, kLength, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(bytes[start + i]);
    bytes.replace(start + kChecksum, kLength, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  }
  return bytes;
}

std::string with_png_checksums(std::string bytes) {
  constexpr size_t kStart = 8, kFrame = 12;
  for (size_t position = kStart; position + kFrame <= bytes.size();) {
    const size_t length = big_endian(bytes, position);
    if (length > bytes.size() - position - kFrame) break;
    const auto* covered = reinterpret_cast<const Bytef*>(bytes.data() + position + 4);
    const uLong checksum = crc32(0, covered, static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i)
      bytes[position + 8 + length + i] = static_cast<char>(checksum >> (24 - 8 * i));
    position += kFrame + length;
  }
  return bytes;
}

}  // namespace linea::fuzz
