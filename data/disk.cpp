#include "data/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/system.h"

namespace linea::disk {
namespace {

namespace fs = std::filesystem;

// write() is limited to about 2 GiB; smaller writes also detect a full disk sooner.
constexpr size_t kMaxWriteBytes = size_t{1} << 28;

Watcher* watcher = nullptr;

// `action` returns 0 or an errno.
template <typename Action>
int watched(Call call, const fs::path& path, const Action& action) {
  if (watcher != nullptr)
    if (const int reason = watcher->before(call, path)) return reason;
  const int reason = action();
  if (reason == 0 && watcher != nullptr) watcher->after(call, path);
  return reason;
}

// 0 or the errno of a call that returns -1 and sets errno.
template <typename SystemCall>
int call_errno(const SystemCall& system_call) {
  for (;;) {
    if (system_call() >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

int open_file(const fs::path& path, int flags, int& descriptor) {
  return watched(Call::create, path, [&] {
    return call_errno([&] {
      return descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    });
  });
}

}  // namespace

const char* name_of(Call call) {
  switch (call) {
    case Call::make_folder:
      return "make_folder";
    case Call::create:
      return "create";
    case Call::write:
      return "write";
    case Call::flush:
      return "flush";
    case Call::close:
      return "close";
    case Call::rename:
      return "rename";
    case Call::flush_folder:
      return "flush_folder";
    case Call::remove:
      return "remove";
    case Call::truncate:
      return "truncate";
  }
  return "unknown";
}

void watch(Watcher* to) { watcher = to; }

int make_folder(const fs::path& path) {
  return watched(Call::make_folder, path,
                 [&] { return call_errno([&] { return ::mkdir(path.c_str(), 0777); }); });
}

int create(const fs::path& path, int& descriptor) { return open_file(path, O_EXCL, descriptor); }

int open_to_append(const fs::path& path, int& descriptor) {
  return open_file(path, O_APPEND, descriptor);
}

int write(int descriptor, const fs::path& path, const void* bytes, size_t count, size_t* written) {
  size_t done = 0;
  const int reason = watched(Call::write, path, [&] {
    while (done < count) {
      const ssize_t count_written = ::write(descriptor, static_cast<const char*>(bytes) + done,
                                            std::min(count - done, kMaxWriteBytes));
      if (count_written < 0 && errno == EINTR) continue;
      if (count_written <= 0) return count_written < 0 ? errno : EIO;
      done += static_cast<size_t>(count_written);
    }
    return 0;
  });
  if (written != nullptr) *written = done;
  return reason;
}

int truncate(int descriptor, const fs::path& path, int64_t size) {
  return watched(Call::truncate, path,
                 [&] { return call_errno([&] { return ::ftruncate(descriptor, size); }); });
}

int flush(int descriptor, const fs::path& path) {
  return watched(Call::flush, path,
                 [&] { return call_errno([&] { return flush_file(descriptor); }); });
}

int close(int descriptor, const fs::path& path) {
  bool closed = false;
  const auto action = [&] {
    closed = true;
    return ::close(descriptor) == 0 || errno == EINTR ? 0 : errno;  // closed even then
  };
  const int reason = watched(Call::close, path, action);
  if (!closed) action();  // after a simulated failure
  return reason;
}

int rename(const fs::path& from, const fs::path& to) {
  return watched(Call::rename, to,
                 [&] { return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno; });
}

int rename_or_exchange(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::is_directory(to, error)) return disk::rename(from, to);
  const int reason =
      watched(Call::rename, to, [&] { return exchange_files(from, to) == 0 ? 0 : errno; });
  if (reason != EINVAL && reason != ENOSYS) return reason;
  fs::path aside = from;
  aside += ".aside";
  for (const auto& [old_name, new_name] :
       {std::pair{to, aside}, std::pair{from, to}, std::pair{aside, from}})
    if (const int problem = disk::rename(old_name, new_name)) return problem;
  return 0;
}

int flush_folder(const fs::path& folder) {
  return watched(Call::flush_folder, folder, [&] {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // A writable folder without read permission cannot be flushed here; the system does it later.
    if (descriptor < 0) return errno == EACCES ? 0 : errno;
    int reason = call_errno([&] { return flush_file(descriptor); });
    if (reason == EINVAL || reason == ENOTSUP) reason = 0;  // not supported by the file system
    if (::close(descriptor) != 0 && errno != EINTR && reason == 0) reason = errno;
    return reason;
  });
}

int remove(const fs::path& path) {
  return watched(Call::remove, path, [&] {
    std::error_code error;
    fs::remove_all(path, error);
    return error.value();
  });
}

}  // namespace linea::disk
