#include "data/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "tensor/error.h"

namespace linea {
namespace {

// write() takes at most about 2 GiB at a time; smaller pieces also notice a full disk sooner.
constexpr size_t kMostBytesAtOnce = size_t{1} << 28;

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

// A rename is on the disk only once its folder is. Returns errno, or 0.
int flush_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A folder that may be written but not read cannot be flushed by us; the system does it later.
  if (descriptor < 0) return errno == EACCES ? 0 : errno;
  int reason = fsync(descriptor) == 0 ? 0 : errno;
  if (reason == EINVAL || reason == ENOTSUP) reason = 0;  // a file system without such a flush
  if (close(descriptor) != 0 && errno != EINTR && reason == 0) reason = errno;
  return reason;
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

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(path), folder_(path.has_parent_path() ? path.parent_path() : ".") {
  std::error_code ignored;  // whatever prevents this look is reported by open()
  const std::filesystem::file_status status = std::filesystem::status(path_, ignored);
  if (!path_.has_filename() || std::filesystem::is_directory(status))
    fail(ErrorKind::write, "{}: is a folder; name a file to write", path_.string());
  // Renaming over a device or a pipe would remove it for everyone.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(ErrorKind::write, "{}: is not a plain file; choose another name", path_.string());
  // Unique in this program and among those that run; an old one left by a crash is passed over.
  static std::atomic<unsigned> counter{0};
  do {
    temporary_ = folder_ / fmt::format(".tmp-{}-{}", getpid(), counter++);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) {
    const int reason = errno;
    temporary_.clear();
    give_up("a file cannot be made in its folder", reason);
  }
}

AtomicFile::~AtomicFile() {
  discard();
}

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
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(count, kMostBytesAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) give_up("cannot be written", written < 0 ? errno : EIO);
    next += written;
    count -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  require(descriptor_ >= 0, "{}: ended twice or after an error", path_.string());
  // Some file systems tell of a full disk only here.
  while (fsync(descriptor_) != 0)
    if (errno != EINTR) give_up("cannot be flushed to the disk", errno);
  const int closed = close(descriptor_);
  const int reason = errno;
  descriptor_ = -1;
  if (closed != 0 && reason != EINTR) give_up("cannot be closed", reason);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    give_up("the finished file cannot be given this name", errno);
  temporary_.clear();
  if (const int problem = flush_folder(folder_))
    give_up("is written, but its folder cannot be flushed to the disk", problem);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (const int problem = flush_folder(from))
    fail(ErrorKind::write, "{}: cannot be flushed to the disk: {}; {}", from.string(), std::strerror(problem),
         what_to_do(problem));
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    const int reason = errno;
    fail(ErrorKind::write, "{}: cannot be renamed to {}: {}; {}", from.string(), to.string(),
         std::strerror(reason), what_to_do(reason));
  }
  const std::filesystem::path parent = to.has_parent_path() ? to.parent_path() : ".";
  if (const int problem = flush_folder(parent))
    fail(ErrorKind::write, "{}: is there, but its folder cannot be flushed to the disk: {}; {}", to.string(),
         std::strerror(problem), what_to_do(problem));
}

void make_folders(const std::filesystem::path& path) {
  if (path.empty()) return;
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (is_folder(path)) return;
  // The outermost part that exists and is no folder is the one to name.
  std::filesystem::path part;
  for (const std::filesystem::path& piece : path) {
    part /= piece;
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(part, ignored)) && !is_folder(part))
      fail(ErrorKind::write, "{}: cannot be made a folder: {} is a file; choose another name",
           path.string(), part.string());
  }
  const int reason = problem ? problem.value() : EIO;
  fail(ErrorKind::write, "{}: the folder cannot be made: {}; {}", path.string(),
       std::strerror(reason), what_to_do(reason));
}

}  // namespace linea
