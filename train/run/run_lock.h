// An exclusive lock on a run's folder: one program at a time writes there.
#pragma once

#include <filesystem>

namespace linea {

class RunLock {
 public:
  // Error: ErrorKind::usage where another program holds the folder.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Whether a program holds the folder now.
  static bool is_held(const std::filesystem::path& folder);

 private:
  int descriptor_ = -1;
};

}  // namespace linea
