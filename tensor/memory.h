// Device memory: allocation, limits and exact accounting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace linea {

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device& other) const = default;
  std::string str() const {
    if (kind == DeviceKind::cpu) return "cpu";
    return index == 0 ? "cuda" : "cuda:" + std::to_string(index);
  }
};

// "cpu", "cuda" or "cuda:1". Error: ErrorKind::usage for any other text.
Device parse_device(const std::string& text);

// Bytes in use now, their peak since the last reset, and free bytes cached for reuse.
struct MemoryUse {
  size_t held = 0, peak = 0, cached = 0;
};

// The limit on tensors: of `total`, described by `whose` ("the machine has", "the container may
// have"), what this program's tensors hold and what is available, less the memory that the rest of
// the program needs.
struct MemoryLimit {
  size_t bytes = 0, total = 0;
  const char* whose = "";
  std::string text() const;
};

// Allocates blocks of at least `bytes`, aligned to 64 bytes. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Error: ErrorKind::memory, with the request and the memory in use.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* block, size_t bytes) noexcept = 0;
  virtual MemoryUse use() const = 0;
  virtual MemoryLimit limit() const = 0;
  virtual void reset_peak() = 0;     // of `use`
  virtual void release_cache() = 0;  // returns cached free blocks to the system
};

// That of the device of this thread's context.
Allocator& device_allocator();

}  // namespace linea
