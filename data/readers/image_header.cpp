#include "data/readers/image_header.h"

#include "base/error.h"
#include "data/one_line.h"
#include "data/readers/image_file.h"

namespace linea {

using namespace std::string_view_literals;

int exif_orientation(std::string_view exif) {
  constexpr size_t kOrientation = 0x112, kShort = 3, kLong = 4, kEntryBytes = 12;
  if (exif.starts_with("Exif\0\0"sv)) exif.remove_prefix(6);
  const bool big = exif.starts_with("MM"sv);
  if (!big && !exif.starts_with("II"sv)) return 1;
  const auto number = [&](size_t position, size_t bytes) {
    size_t value = 0;
    for (size_t i = 0; i < bytes && position + bytes <= exif.size(); ++i)
      value = value << 8 | byte_at(exif, position + (big ? i : bytes - 1 - i));
    return value;
  };
  if (number(2, 2) != 42) return 1;
  const size_t directory = number(4, 4), entries = number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > exif.size()) break;
    if (number(entry, 2) != kOrientation) continue;
    const size_t type = number(entry + 2, 2);
    const size_t value = type == kShort  ? number(entry + 8, 2)
                         : type == kLong ? number(entry + 8, 4)
                                         : 0;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void fail_damaged(const std::string& name, const std::string& reason) {
  fail(ErrorKind::input, "{}: is truncated or damaged ({}); replace it or leave it out", name,
       one_line(reason));
}

void fail_unsupported(const std::string& name, const std::string& kind) {
  fail(ErrorKind::input, "{}: is {}, which is not supported; convert it to a plain PNG or JPEG",
       name, kind);
}

void check_image_size(const ImageHeader& header, const std::string& name) {
  if (header.width > kMaxImagePixels || header.width * header.height > kMaxImagePixels)
    fail(ErrorKind::input,
         "{}: is an image of {} x {} pixels, at most {} are supported; make it smaller", name,
         header.width, header.height, kMaxImagePixels);
}

void check_encoded_size(const ImageHeader& header, const std::string& name, int64_t min_bytes,
                        const std::string& bytes) {
  if (min_bytes > static_cast<int64_t>(bytes.size()))
    fail_damaged(name, fmt::format("{} x {} pixels cannot be encoded in its {} bytes", header.width,
                                   header.height, bytes.size()));
}

}  // namespace linea
