// Device memory: where it comes from, how it is kept for reuse, and an exact account of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace linea {

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device& other) const { return kind == other.kind && index == other.index; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  std::string str() const {
    if (kind == DeviceKind::cpu) return "cpu";
    return index == 0 ? "cuda" : "cuda:" + std::to_string(index);
  }
};

// "cpu", "cuda" or "cuda:1". Error: ErrorKind::usage for any other text.
Device parse_device(const std::string& text);

// Hands out blocks of at least `bytes`, aligned to 64. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Error: ErrorKind::memory with what was asked for and what is held.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* block, size_t bytes) noexcept = 0;
};

// Bytes in tensors now, at most since the last reset, and kept free for reuse.
struct MemoryUse {
  size_t held = 0, peak = 0, cached = 0;
};

// The most that tensors may hold: `total`, whose number it is ("the machine has", "the container
// may have"), less what the program needs besides.
struct MemoryLimit {
  size_t bytes = 0, total = 0;
  const char* whose = "";
  std::string text() const;
};

// Of the device that this thread's context names.
MemoryUse memory_use();
MemoryLimit memory_limit();
void reset_memory_peak();
void release_memory_cache();  // gives the blocks kept for reuse back to the system

// The CPU's allocator (tensor/caching_allocator.h).
Allocator& cpu_allocator();
MemoryUse cpu_memory();
void reset_cpu_peak();
// Gives the blocks kept for reuse back to the system.
void release_cpu_cache();
// Refuses to hold more than this many bytes. At first, and with 0, all the memory that the machine
// has.
void set_cpu_memory_limit(size_t bytes);

}  // namespace linea
