#include "data/files.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "data/disk.h"
#include "tensor/error.h"

namespace linea {
namespace {

const char* what_to_do(int reason) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another folder";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f) or choose another disk";
    case EACCES:
    case EPERM:
      return "change the rights of the folder or choose another";
    case EROFS:
      return "choose a folder on a disk that can be written";
    case ENOENT:
      return "make the folder first";
    case ENOTDIR:
      return "a file stands where a folder should; choose another name";
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

std::filesystem::path folder_of(const std::filesystem::path& path) {
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
    fail(ErrorKind::input, "{}: is not a plain file; copy its content into one", path.string());
  const uintmax_t size = std::filesystem::file_size(path, problem);
  if (problem) fail(ErrorKind::input, "{}: {}", path.string(), problem.message());
  return static_cast<int64_t>(size);
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

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path), folder_(folder_of(path)) {
  std::error_code ignored;  // whatever prevents this look is reported by open()
  const std::filesystem::file_status status = std::filesystem::status(path_, ignored);
  if (!path_.has_filename() || std::filesystem::is_directory(status))
    fail(ErrorKind::write, "{}: is a folder; name a file to write", path_.string());
  // Renaming over a device or a pipe would remove it for everyone.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(ErrorKind::write, "{}: is not a plain file; choose another name", path_.string());
  // Unique in this program and among those that run; an old one left by a crash is passed over.
  static std::atomic<unsigned> counter{0};
  int reason = 0;
  do {
    temporary_ = folder_ / fmt::format(".tmp-{}-{}", getpid(), counter++);
    reason = disk::create(temporary_, descriptor_);
  } while (reason == EEXIST);
  if (reason != 0) {
    temporary_.clear();
    give_up("a file cannot be made in its folder", reason);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::give_up(const char* action, int reason) {
  discard();
  fail(ErrorKind::write, "{}: {}: {}; {}", path_.string(), action, std::strerror(reason),
       what_to_do(reason));
}

void AtomicFile::write(const void* bytes, size_t count) {
  require(descriptor_ >= 0, "{}: written to after its end or an error", path_.string());
  if (const int reason = disk::write(descriptor_, temporary_, bytes, count))
    give_up("cannot be written", reason);
  hasher_.update(bytes, count);
  bytes_ += static_cast<int64_t>(count);
}

WrittenFile AtomicFile::commit() {
  require(descriptor_ >= 0, "{}: ended twice or after an error", path_.string());
  // Some file systems tell of a full disk only here.
  if (const int reason = disk::flush(descriptor_, temporary_))
    give_up("cannot be flushed to the disk", reason);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (const int reason = disk::close(descriptor, temporary_)) give_up("cannot be closed", reason);
  if (const int reason = disk::rename(temporary_, path_))
    give_up("the finished file cannot be given this name", reason);
  temporary_.clear();
  if (const int reason = disk::flush_folder(folder_))
    give_up("is written, but its folder cannot be flushed to the disk", reason);
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
           what_to_do(reason));
  };
  check(from, "cannot be flushed to the disk", disk::flush_folder(from));
  check(from, fmt::format("cannot be renamed to {}", to.string()),
        disk::rename_or_exchange(from, to));
  check(to, "is there, but its folder cannot be flushed to the disk",
        disk::flush_folder(folder_of(to)));
}

void make_folders(const std::filesystem::path& path) {
  if (path.empty()) return;
  std::filesystem::path made;
  int problem = 0;
  for (const std::filesystem::path& piece : path) {
    made /= piece;
    if (piece.empty() || is_folder(made)) continue;  // the empty piece after a last slash
    problem = disk::make_folder(made);
    if (problem == EEXIST && is_folder(made)) problem = 0;  // another process was faster
    if (problem == 0) problem = disk::flush_folder(folder_of(made));
    if (problem != 0) break;
  }
  if (problem == 0 && is_folder(path)) return;
  // The outermost part that exists and is no folder is the one to name.
  std::filesystem::path part;
  for (const std::filesystem::path& piece : path) {
    part /= piece;
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(part, ignored)) && !is_folder(part))
      fail(ErrorKind::write, "{}: cannot be made a folder: {} is a file; choose another name",
           path.string(), part.string());
  }
  const int reason = problem != 0 ? problem : EIO;
  fail(ErrorKind::write, "{}: the folder cannot be made: {}; {}", path.string(),
       std::strerror(reason), what_to_do(reason));
}

}  // namespace linea
