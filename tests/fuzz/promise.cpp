#include "tests/fuzz/promise.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "base/error.h"

// The sanitizers' runtime has it, other builds do not.
extern "C" [[gnu::weak]] int __sanitizer_install_malloc_and_free_hooks(
    void (*taken)(const volatile void*, size_t), void (*freed)(const volatile void*));

namespace linea::fuzz {
namespace {

std::atomic<size_t> taken_bytes{0};

void count_taken(const volatile void*, size_t bytes) { taken_bytes += bytes; }
void ignore_freed(const volatile void*) {}

void start_counting() {
  if (!counts_memory()) return;
  static const int installed = __sanitizer_install_malloc_and_free_hooks(count_taken, ignore_freed);
  expect(installed > 0, "allocations cannot be counted");
}

}  // namespace

bool counts_memory() { return __sanitizer_install_malloc_and_free_hooks != nullptr; }

void expect(bool holds, const std::string& problem) {
  if (!holds) throw Broken(problem);
}

void expect_one_line(const std::string& message) {
  for (const char byte : message) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7F)
      throw Broken(
          fmt::format("the message holds the control character {:#04x}: {}", code, message));
  }
}

void expect_value_or_error(size_t input_bytes, const std::function<void()>& read,
                           const Budget& budget) {
  start_counting();
  const size_t before = taken_bytes;
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input && error.kind() != ErrorKind::usage)
      throw Broken(fmt::format("an error of kind {}: {}", error.exit_code(), error.what()));
    expect_one_line(error.what());
  }
  const size_t taken = taken_bytes - before, limit = budget.fixed + budget.each * input_bytes;
  if (taken > limit)
    throw Broken(fmt::format("{} bytes of memory for {} bytes, at most {} were expected", taken,
                             input_bytes, limit));
}

MemoryFile::MemoryFile() : descriptor_(memfd_create("linea-fuzz", 0)) {
  expect(descriptor_ >= 0, "no file in memory can be made");
}

MemoryFile::~MemoryFile() { close(descriptor_); }

std::filesystem::path MemoryFile::holding(const std::string& bytes) const {
  const bool done =
      ftruncate(descriptor_, 0) == 0 &&
      pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  expect(done, "a file in memory cannot be written");
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

ScratchFolder::ScratchFolder() {
  // In memory where there is such a folder: what is read was written just before.
  std::error_code ignored;
  const std::filesystem::path memory = "/dev/shm";
  const bool has_memory =
      std::filesystem::is_directory(memory, ignored) && access(memory.c_str(), W_OK) == 0;
  std::string name =
      ((has_memory ? memory : std::filesystem::temp_directory_path()) / "linea-fuzz-XXXXXX")
          .string();
  expect(mkdtemp(name.data()) != nullptr, "no folder for temporary files can be made");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void put_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  expect(static_cast<bool>(file.flush()), "cannot write " + path.string());
}

}  // namespace linea::fuzz
