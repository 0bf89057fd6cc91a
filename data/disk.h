// The system calls that change files and folders, in one place: every write of Linea's own files
// goes through them, so that tests can make any of them fail, or end there as if the power had
// gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace linea::disk {

enum class Call { make_folder, create, write, flush, close, rename, flush_folder, remove, cut };
const char* name_of(Call call);

// Sees every call. Tests set one; the program has none.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // What the call fails with, an errno; 0 lets it go on.
  virtual int before(Call call, const std::filesystem::path& path) = 0;
  virtual void after(Call call, const std::filesystem::path& path) = 0;  // of those that succeeded
};
void watch(Watcher* watcher);  // nullptr: none

// Each returns 0 or an errno, and starts again where a signal came between.

int make_folder(const std::filesystem::path& path);
// Opens a new file; EEXIST where there is one.
int create(const std::filesystem::path& path, int& descriptor);
// Opens a file to write on from its end, a new one where there is none.
int open_to_append(const std::filesystem::path& path, int& descriptor);
// All of the bytes; `path` names the file to the watcher. `written`, where given, hears how many
// went before an error.
int write(int descriptor, const std::filesystem::path& path, const void* bytes, size_t count,
          size_t* written = nullptr);
// Takes what stands behind the first `size` bytes away.
int cut(int descriptor, const std::filesystem::path& path, int64_t size);
int flush(int descriptor, const std::filesystem::path& path);
int close(int descriptor, const std::filesystem::path& path);
// Replaces a file of the new name.
int rename(const std::filesystem::path& from, const std::filesystem::path& to);
// As rename, but a folder that stands under the new name gets the old one, in one step where the
// file system can, else by way of a third name.
int rename_or_exchange(const std::filesystem::path& from, const std::filesystem::path& to);
// A new name is on the disk only once its folder is.
int flush_folder(const std::filesystem::path& folder);
// A file, or a folder with all that is in it.
int remove(const std::filesystem::path& path);

}  // namespace linea::disk
