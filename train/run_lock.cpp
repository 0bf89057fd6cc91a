#include "train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "data/files.h"
#include "tensor/error.h"

namespace linea {

// The system releases the lock when the program ends, however it ends. Without support by the file
// system there is no lock.
RunLock::RunLock(const std::filesystem::path& folder) {
  make_folders(folder);
  descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor_);
    fail(ErrorKind::usage, "another program is training into {}: wait for it to end, or stop it",
         folder.string());
  }
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace linea
