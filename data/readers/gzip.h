// Reads a file sequentially, unpacking it if it is gzip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "data/files.h"

struct gzFile_s;

namespace linea {

constexpr int64_t kMaxExpansion = 1032;  // of deflate: 258 bytes from two bits

class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  int64_t file_bytes() const { return file_bytes_; }
  bool compressed();

  // Up to `count` bytes (below 2^31); fewer only at a valid end of the data. Reading past the end
  // verifies the checksum. Error: ErrorKind::input for truncated or damaged data.
  int64_t read(void* target, int64_t count);

 private:
  std::string name_;
  int64_t file_bytes_;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file_;
};

// All bytes of a gzip file; memory grows with the bytes unpacked. Error: ErrorKind::input for a
// file that is not gzip, is truncated or damaged, or unpacks to more than `max_bytes`.
std::string read_gzip(const std::filesystem::path& path, int64_t max_bytes = kMaxFileBytes);

}  // namespace linea
