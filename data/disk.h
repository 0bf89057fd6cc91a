// The system calls that change files and folders. Every write of Linea's own files goes through
// them, so that tests can make any of them fail, or stop there as after a power failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace linea::disk {

enum class Call {
  make_folder,
  create,
  write,
  flush,
  close,
  rename,
  flush_folder,
  remove,
  truncate
};
const char* name_of(Call call);

// Observes every call; set by tests only.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // The errno with which the call fails; 0: it proceeds.
  virtual int before(Call call, const std::filesystem::path& path) = 0;
  virtual void after(Call call, const std::filesystem::path& path) = 0;  // a successful one
};
void watch(Watcher* watcher);  // nullptr: none

// Each returns 0 or an errno, and is restarted after EINTR.

int make_folder(const std::filesystem::path& path);
// Creates a file; EEXIST where it exists.
int create(const std::filesystem::path& path, int& descriptor);
// Opens a file for appending, and creates it if it is missing.
int open_to_append(const std::filesystem::path& path, int& descriptor);
// Writes all bytes; `path` names the file to the watcher. `written`, where given, gets the number
// written before an error.
int write(int descriptor, const std::filesystem::path& path, const void* bytes, size_t count,
          size_t* written = nullptr);
// Truncates the file to `size` bytes.
int truncate(int descriptor, const std::filesystem::path& path, int64_t size);
int flush(int descriptor, const std::filesystem::path& path);
int close(int descriptor, const std::filesystem::path& path);
// Replaces an existing file.
int rename(const std::filesystem::path& from, const std::filesystem::path& to);
// As rename, but an existing folder of the new name gets the old one, atomically where the file
// system supports it, else through a third name.
int rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to);
// Flushes new names in the folder to the disk.
int flush_folder(const std::filesystem::path& folder);
// A file, or a folder with its content.
int remove(const std::filesystem::path& path);

}  // namespace linea::disk
