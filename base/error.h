// Errors that a user can act on. A message names the parameter, its value and the remedy; the kind
// is the program's exit code.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>  // of fmt::join since fmt 11

#include <stdexcept>
#include <string>
#include <utility>

namespace linea {

enum class ErrorKind {
  usage = 2,    // an option or a shape that cannot work
  input = 3,    // a file or run that is missing, unreadable, truncated or of another format
  numeric = 4,  // NaN, or a failed verification
  memory = 5,   // out of memory, device too small
  write = 6,    // a folder or disk that cannot be written
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

// For misuse of the library by its caller (shapes, dtypes): throws ErrorKind::usage unless `holds`.
template <typename... Args>
void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) throw Error(ErrorKind::usage, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace linea
