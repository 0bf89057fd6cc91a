// Hand-made IDX files, good and damaged.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace linea {

inline std::string idx_bytes(const std::vector<uint32_t>& sizes, const std::string& payload) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 0xFF);
  return bytes + payload;
}

// By deflate; zlib's `window` says what surrounds it.
inline std::string deflated(const std::string& bytes, int window) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()) + 32, '\0');
  std::string source = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(source.data());
  stream.avail_in = static_cast<uInt>(source.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string gzip(const std::string& bytes) { return deflated(bytes, 15 + 16); }

}  // namespace linea
