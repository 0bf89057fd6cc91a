// Hand-made zip archives, good and damaged.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/data/readers/idx_bytes.h"

namespace linea {

inline std::string little_endian(uint64_t number, int length) {
  std::string bytes;
  for (int i = 0; i < length; ++i, number >>= 8) bytes += static_cast<char>(number & 0xFF);
  return bytes;
}

// What an archive says of a file. `unpacked_size` and the like may be false.
struct ZipEntry {
  std::string name, packed;
  uint64_t method, flags, checksum, packed_size, unpacked_size;
};

inline ZipEntry zip_entry(const std::string& name, const std::string& bytes,
                          bool deflate_it = true) {
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  const std::string packed = deflate_it ? deflated(bytes, -15) : bytes;
  return {name, packed, deflate_it ? 8u : 0u, 0, checksum, packed.size(), bytes.size()};
}

inline std::string zip_bytes(const std::vector<ZipEntry>& entries,
                             const std::string& comment = "") {
  std::string files, list;
  for (const ZipEntry& entry : entries) {
    const std::string common =
        little_endian(20, 2) + little_endian(entry.flags, 2) + little_endian(entry.method, 2) +
        little_endian(0, 4) + little_endian(entry.checksum, 4) +
        little_endian(entry.packed_size, 4) + little_endian(entry.unpacked_size, 4) +
        little_endian(entry.name.size(), 2);
    list += "PK\1\2" + little_endian(20, 2) + common + little_endian(0, 12) +
            little_endian(files.size(), 4) + entry.name;
    files += "PK\3\4" + common + little_endian(0, 2) + entry.name + entry.packed;
  }
  return files + list + "PK\5\6" + little_endian(0, 4) + little_endian(entries.size(), 2) +
         little_endian(entries.size(), 2) + little_endian(list.size(), 4) +
         little_endian(files.size(), 4) + little_endian(comment.size(), 2) + comment;
}

}  // namespace linea
