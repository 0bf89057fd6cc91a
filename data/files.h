// Whole files in and out. A file is read only after its size is known and allowed. Files and
// folders are written so that a crash, a full disk or an error leaves either the old one or the
// whole new one under a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/hash.h"

namespace linea {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// The size in bytes; an input error if `path` is missing, a folder or anything but a plain file.
int64_t plain_file_size(const std::filesystem::path& path);

std::string read_file(const std::filesystem::path& path, int64_t max_bytes = kMaxFileBytes);

// What a file was given to hold: what is read back later must agree with it.
struct WrittenFile {
  int64_t bytes = 0;
  std::string sha256;
};

// A file on its way to `path`: its bytes go to a file named ".tmp-..." in the same folder, which
// commit() flushes to the disk and renames. Without commit() the temporary file is removed and
// whatever stood under `path` stays. Every error is ErrorKind::write and leaves `path` as it was,
// but for one: the folder itself cannot be flushed, where the message says that the file is there.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  WrittenFile commit();

 private:
  [[noreturn]] void give_up(const char* action, int reason);
  void discard() noexcept;

  std::filesystem::path path_, folder_, temporary_;
  int descriptor_ = -1;  // -1 once closed
  int64_t bytes_ = 0;
  Hasher hasher_;
};

WrittenFile write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

// Renames a finished folder so that it is on the disk under its new name. A folder that stood there
// has the old name then. Error: ErrorKind::write.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes the folder and those above it that are missing, so that they are on the disk; an empty path
// is the current folder. Error: ErrorKind::write.
void make_folders(const std::filesystem::path& path);

}  // namespace linea
