// A tar archive (ustar), plain or gzip, read from front to back; nothing is unpacked to the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/readers/gzip.h"

namespace linea {

class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path);

  // Moves to the next plain file of the archive; false at its end, after which its checksum has
  // been compared. Folders, links and notes are passed over. Error: ErrorKind::input where a header
  // is damaged.
  bool next();

  const std::string& entry_name() const { return entry_name_; }
  int64_t entry_bytes() const { return entry_bytes_; }

  // The bytes of the entry, at most once. Memory is taken as they arrive, not as the header
  // promises. Error: ErrorKind::input where there are more than `max_bytes`.
  std::string read_entry(int64_t max_bytes);

 private:
  bool read_header();
  void skip(int64_t bytes);

  GzipReader file_;
  std::string entry_name_;
  int64_t entry_bytes_ = 0;
  int64_t unread_ = 0;    // of the entry, with what fills its last block
  int64_t unpacked_ = 0;  // bytes of the archive so far
  bool is_plain_file_ = false;
};

}  // namespace linea
