#include "data/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "tensor/error.h"

namespace linea {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

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

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  const auto give_up = [&](int reason) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    fail(ErrorKind::write, "{}: cannot be written: {}; check the folder, its rights and free space",
         path.string(), std::strerror(reason));
  };
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) give_up(errno);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int write_reason = errno;
  // The last bytes leave the buffer in fclose: a full disk may show only there.
  const bool closed = std::fclose(file) == 0;
  const int close_reason = errno;
  if (!written) give_up(write_reason);
  if (!closed) give_up(close_reason);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) give_up(errno);
}

}  // namespace linea
