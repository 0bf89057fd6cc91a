#include "data/files.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "data/disk.h"

namespace linea {
namespace {

const char* remedy(int reason) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another folder";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f) or choose another disk";
    case EACCES:
    case EPERM:
      return "change the permissions of the folder or choose another";
    case EROFS:
      return "choose a folder on a writable disk";
    case ENOENT:
      return "create the folder first";
    case ENOTDIR:
      return "a parent is a file, not a folder; choose another name";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    default:
      return "check the folder and its disk";
  }
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::filesystem::path parent_folder(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

int64_t plain_file_size(const std::filesystem::path& path) {
  std::error_code problem;
  const std::filesystem::file_status status = std::filesystem::status(path, problem);
  if (status.type() == std::filesystem::file_type::not_found)
    fail(ErrorKind::input, "{}: no such file; check the path", path.string());
  if (problem) fail(ErrorKind::input, "{}: {}", path.string(), problem.message());
  if (std::filesystem::is_directory(status))
    fail(ErrorKind::input, "{}: is a folder; name a file in it", path.string());
  if (!std::filesystem::is_regular_file(status))
    fail(ErrorKind::input, "{}: is not a regular file; copy its content into one", path.string());
  const uintmax_t size = std::filesystem::file_size(path, problem);
  if (problem) fail(ErrorKind::input, "{}: {}", path.string(), problem.message());
  return static_cast<int64_t>(size);
}

std::filesystem::path find_wrapped_file(const std::filesystem::path& path) {
  const std::filesystem::path name = path.filename();
  const std::filesystem::path unpacked = name.extension() == ".gz" ? name.stem() : name;
  std::error_code ignored;
  for (const std::filesystem::path& candidate : {path, path / name, path / unpacked})
    if (std::filesystem::is_regular_file(candidate, ignored)) return candidate;
  return {};
}

std::string read_file(const std::filesystem::path& path, int64_t max_bytes) {
  const int64_t size = plain_file_size(path);
  if (size > max_bytes)
    fail(ErrorKind::input, "{}: has {} bytes, at most {} can be read; use a smaller file",
         path.string(), size, max_bytes);
  const FileHandle file(std::fopen(path.c_str(), "rb"));
  if (!file)
    fail(ErrorKind::input, "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  std::string bytes(static_cast<size_t>(size), '\0');
  const size_t count = std::fread(bytes.data(), 1, bytes.size(), file.get());
  if (count != bytes.size())
    fail(ErrorKind::input, "{}: only {} of its {} bytes could be read", path.string(), count, size);
  return bytes;
}

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(path), folder_(parent_folder(path)) {
  std::error_code ignored;  // errors are reported when the file is created
  const std::filesystem::file_status status = std::filesystem::status(path_, ignored);
  if (!path_.has_filename() || std::filesystem::is_directory(status))
    fail(ErrorKind::write, "{}: is a folder; name a file to write", path_.string());
  // Renaming over a device or a pipe would remove it.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(ErrorKind::write, "{}: is not a regular file; choose another name", path_.string());
  // Unique among running programs; a name left by a crash is skipped.
  static std::atomic<unsigned> counter{0};
  int reason = 0;
  do {
    temporary_ = folder_ / fmt::format(".tmp-{}-{}", getpid(), counter++);
    reason = disk::create(temporary_, descriptor_);
  } while (reason == EEXIST);
  if (reason != 0) {
    temporary_.clear();
    fail_write("cannot create a file in its folder", reason);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::fail_write(const char* action, int reason) {
  discard();
  fail(ErrorKind::write, "{}: {}: {}; {}", path_.string(), action, std::strerror(reason),
       remedy(reason));
}

void AtomicFile::write(const void* bytes, size_t count) {
  require(descriptor_ >= 0, "{}: write after commit or an error", path_.string());
  if (const int reason = disk::write(descriptor_, temporary_, bytes, count))
    fail_write("cannot be written", reason);
  hasher_.update(bytes, count);
  bytes_ += static_cast<int64_t>(count);
}

WrittenFile AtomicFile::commit() {
  require(descriptor_ >= 0, "{}: commit after commit or an error", path_.string());
  // Some file systems report a full disk only here.
  if (const int reason = disk::flush(descriptor_, temporary_))
    fail_write("cannot be flushed to the disk", reason);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (const int reason = disk::close(descriptor, temporary_))
    fail_write("cannot be closed", reason);
  if (const int reason = disk::rename(temporary_, path_))
    fail_write("the finished file cannot be renamed to this name", reason);
  temporary_.clear();
  if (const int reason = disk::flush_folder(folder_))
    fail_write("is written, but its folder cannot be flushed to the disk", reason);
  return {bytes_, hasher_.hex()};
}

WrittenFile write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  return file.commit();
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto check = [&](const std::filesystem::path& path, const std::string& problem,
                         int reason) {
    if (reason != 0)
      fail(ErrorKind::write, "{}: {}: {}; {}", path.string(), problem, std::strerror(reason),
           remedy(reason));
  };
  check(from, "cannot be flushed to the disk", disk::flush_folder(from));
  check(from, fmt::format("cannot be renamed to {}", to.string()),
        disk::rename_or_exchange(from, to));
  check(to, "exists, but its folder cannot be flushed to the disk",
        disk::flush_folder(parent_folder(to)));
}

void make_folders(const std::filesystem::path& path) {
  if (path.empty()) return;
  std::filesystem::path folder;
  int problem = 0;
  for (const std::filesystem::path& name : path) {
    folder /= name;
    if (name.empty() || is_folder(folder)) continue;  // empty after a trailing slash
    problem = disk::make_folder(folder);
    if (problem == EEXIST && is_folder(folder)) problem = 0;  // created by another process
    if (problem == 0) problem = disk::flush_folder(parent_folder(folder));
    if (problem != 0) break;
  }
  if (problem == 0 && is_folder(path)) return;
  // Name the outermost parent that is not a folder.
  std::filesystem::path parent;
  for (const std::filesystem::path& name : path) {
    parent /= name;
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(parent, ignored)) &&
        !is_folder(parent))
      fail(ErrorKind::write, "{}: cannot be created: {} is a file; choose another name",
           path.string(), parent.string());
  }
  const int reason = problem != 0 ? problem : EIO;
  fail(ErrorKind::write, "{}: the folder cannot be created: {}; {}", path.string(),
       std::strerror(reason), remedy(reason));
}

}  // namespace linea
