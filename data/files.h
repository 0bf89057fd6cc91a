// Reading and writing of whole files. A file is read only after its size is checked. Files and
// folders are written atomically: a crash, a full disk or an error leaves either the old or the
// complete new one under a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/hash.h"

namespace linea {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kBufferBytes = int64_t{1} << 20;  // of a file that is read piece by piece

// The size in bytes. Error: ErrorKind::input unless `path` is a regular file.
int64_t plain_file_size(const std::filesystem::path& path);

// `path` if it is a file; where it is a folder, the file of its name in it, with or without .gz:
// some archives are unpacked so. Empty where there is neither.
std::filesystem::path find_wrapped_file(const std::filesystem::path& path);

std::string read_file(const std::filesystem::path& path, int64_t max_bytes = kMaxFileBytes);

// Size and hash of a written file, to verify it when it is read back.
struct WrittenFile {
  int64_t bytes = 0;
  std::string sha256;
};

// A file being written to `path`: its bytes go to a file named ".tmp-..." in the same folder, which
// commit() flushes to the disk and renames. Without commit() the temporary file is removed and
// `path` stays as it was. Every error is ErrorKind::write and leaves `path` unchanged, except where
// the folder itself cannot be flushed; that message says that the file exists.
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
  [[noreturn]] void fail_write(const char* action, int reason);
  void discard() noexcept;

  std::filesystem::path path_, folder_, temporary_;
  int descriptor_ = -1;  // -1 once closed
  int64_t bytes_ = 0;
  Hasher hasher_;
};

WrittenFile write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

// Renames a complete folder and flushes the new name to the disk. An existing folder of the new
// name gets the old one. Error: ErrorKind::write.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Creates the folder and its missing parents and flushes them to the disk; an empty path is the
// current folder. Error: ErrorKind::write.
void make_folders(const std::filesystem::path& path);

}  // namespace linea
