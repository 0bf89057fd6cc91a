#include "train/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "data/files.h"

namespace linea {

namespace {

// is_held() has a lock of its own for an instant, which is no reason to refuse a run.
constexpr int kTries = 5;
constexpr useconds_t kWait = 10000;  // between them, microseconds

}  // namespace

// The system releases the lock when the program ends, however it ends. Without support by the file
// system there is no lock.
RunLock::RunLock(const std::filesystem::path& folder) {
  make_folders(folder);
  descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 1;
       descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
       ++i) {
    if (i < kTries) {
      usleep(kWait);
      continue;
    }
    close(descriptor_);
    fail(ErrorKind::usage, "another program is training into {}: wait for it to end, or stop it",
         folder.string());
  }
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool RunLock::is_held(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(descriptor);
  return held;
}

}  // namespace linea
