// Files that may be compressed by gzip, read from front to back. A plain file is handed through
// unchanged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

struct gzFile_s;

namespace linea {

class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  int64_t file_bytes() const { return file_bytes_; }
  bool compressed();

  // Up to `count` bytes (below 2^31); fewer only at a sound end of the data. Reading past the end
  // compares the checksum. Error: ErrorKind::input where the data is cut or damaged.
  int64_t read(void* target, int64_t count);

 private:
  std::string name_;
  int64_t file_bytes_;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file_;
};

}  // namespace linea
