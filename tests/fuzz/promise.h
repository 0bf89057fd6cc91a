// What every reader promises for any bytes: a value, or an Error of kind input or usage whose
// message is one line, and memory that what was read can pay for. A fuzz target reads bytes and
// throws Broken where that does not hold; whatever else leaves it is a broken promise too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

namespace linea::fuzz {

struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

// All that one read may take together, freed or not: bytes, and bytes for each byte that is read.
// It is measured where a sanitizer counts allocations.
struct Budget {
  size_t fixed = size_t{16} << 20, each = 64;
};

void expect_value_or_error(size_t input_bytes, const std::function<void()>& read,
                           const Budget& budget = {});

// Whether this build measures memory.
bool counts_memory();

// Throws Broken where a message has control characters, which could break its line or a terminal.
void expect_one_line(const std::string& message);
// Throws Broken with `problem` unless it holds.
void expect(bool holds, const std::string& problem);

inline std::string to_string(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file without a disk, whose bytes change from read to read.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Its path, after it was given these bytes.
  std::filesystem::path holding(const std::string& bytes) const;

 private:
  int descriptor_;
};

// A folder that lives as long as the program.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Without a flush to the disk.
void put_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace linea::fuzz
