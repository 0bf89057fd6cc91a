// The header of a PNG or JPEG file, checked before stb decodes it, because stb trusts much of it.
// Internal to image_file.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace linea {

struct ImageHeader {
  int64_t width = 0, height = 0;  // as stored
  int orientation = 1;            // of EXIF, 1 to 8: how the stored image is to be shown
};

constexpr std::string_view kPngStart("\x89PNG\r\n\x1a\n", 8);
constexpr std::string_view kJpegStart("\xff\xd8\xff", 3);

// Both change `bytes` where stb would decode it by what is in memory, or into other colors than
// libpng and libjpeg do. Error: ErrorKind::input, a file that is truncated, damaged, larger than
// its bytes can encode, or of a kind that stb does not read; the message begins with `name`.
ImageHeader check_png(std::string& bytes, const std::string& name);
ImageHeader check_jpeg(std::string& bytes, const std::string& name);

// The tag Orientation of the first image of an EXIF block, which is a TIFF file; 1 where there is
// none or the block is damaged.
int exif_orientation(std::string_view exif);

[[noreturn]] void fail_damaged(const std::string& name, const std::string& reason);
// `kind` with its article: "a lossless JPEG".
[[noreturn]] void fail_unsupported(const std::string& name, const std::string& kind);

// Before memory is allocated for it: the image's size is supported, and is one that the file can
// encode at `min_bytes` or more.
void check_image_size(const ImageHeader& header, const std::string& name);
void check_encoded_size(const ImageHeader& header, const std::string& name, int64_t min_bytes,
                        const std::string& bytes);

inline size_t byte_at(std::string_view bytes, size_t position) {
  return static_cast<unsigned char>(bytes[position]);
}

}  // namespace linea
