// Hand-made PNG and JPEG files, good and damaged.
#pragma once

#include <stb/stb_image_write.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace linea {

inline std::string word_bytes(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xFF);
  return bytes;
}

inline std::string png_chunk(const std::string& kind, const std::string& payload) {
  const std::string covered = kind + payload;
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(covered.data()), static_cast<uInt>(covered.size()));
  return word_bytes(static_cast<uint32_t>(payload.size())) + covered +
         word_bytes(static_cast<uint32_t>(checksum));
}

// `color`: 0 gray, 2 RGB, 3 palette, 4 gray with alpha, 6 RGB with alpha. `raw`: the rows, each
// after its filter byte.
inline std::string png_file(uint32_t width, uint32_t height, int depth, int color, bool interlaced,
                            const std::string& raw, const std::string& more_chunks = "") {
  std::string packed(compressBound(raw.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(raw.data()), raw.size());
  packed.resize(size);
  const std::string form{static_cast<char>(depth), static_cast<char>(color), '\0', '\0',
                         static_cast<char>(interlaced)};
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", word_bytes(width) + word_bytes(height) + form) +
         more_chunks + png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

// `rows` without their filter bytes.
inline std::string png_bytes(uint32_t width, uint32_t height, int depth, int color,
                             const std::vector<std::string>& rows,
                             const std::string& more_chunks = "") {
  std::string raw;
  for (const std::string& row : rows) raw += '\0' + row;
  return png_file(width, height, depth, color, false, raw, more_chunks);
}

inline std::string jpeg_bytes(int width, int height, int channels,
                              const std::vector<uint8_t>& pixels) {
  std::string jpeg;
  stbi_write_jpg_to_func(
      [](void* target, void* data, int size) {
        static_cast<std::string*>(target)->append(static_cast<const char*>(data),
                                                  static_cast<size_t>(size));
      },
      &jpeg, width, height, channels, pixels.data(), 95);
  return jpeg;
}

}  // namespace linea
