// Reads a tar archive (ustar), plain or gzip, sequentially; nothing is unpacked to the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/readers/gzip.h"

namespace linea {

class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path);

  // Advances to the next regular file, past folders, links and extended headers; false at the end
  // of the archive, once its checksum is verified. Error: ErrorKind::input for a damaged header.
  bool next();

  const std::string& entry_name() const { return entry_name_; }
  int64_t entry_bytes() const { return entry_bytes_; }

  // The bytes of the entry; at most one call per entry. Memory grows with the data read, not by the
  // size in the header. Error: ErrorKind::input for more than `max_bytes`.
  std::string read_entry(int64_t max_bytes);

 private:
  bool read_header();
  void skip(int64_t bytes);

  GzipReader file_;
  std::string entry_name_;
  int64_t entry_bytes_ = 0;
  int64_t unread_ = 0;    // of the entry, with the padding of its last block
  int64_t unpacked_ = 0;  // bytes of the archive so far
  bool is_regular_file_ = false;
};

}  // namespace linea
