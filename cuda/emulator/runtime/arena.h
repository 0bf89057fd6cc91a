// Device memory: one range of addresses, where what was freed lies idle for long, so that a pointer
// that outlived its memory does not meet another's. Fresh memory is full of NaN.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <vector>

namespace linea::emulator {

class Arena {
 public:
  // Null where the addresses are used up.
  void* allocate(size_t bytes);
  // What allocate does last, and release first: whoever orders memory on a stream has them run
  // there.
  void fill(void* data);
  void release(void* data);

  // The allocation that holds this address, {nullptr, 0} where there is none.
  struct Allocation {
    char* data;
    size_t bytes;
  };
  Allocation find(const void* address) const;
  bool holds(const void* address) const { return address >= base_ && address < end_; }

  // Stops unless all the bytes lie in one allocation.
  void need(const void* data, size_t bytes, const char* what) const;

  // The host may touch device memory between these, if the guard is up.
  void open();
  void close();

 private:
  struct Region {  // an allocation with the red zone behind it
    char* data;
    size_t bytes;
  };
  void reserve();
  Region take(size_t bytes);
  void protect(int access);  // all that was ever handed out

  char *base_ = nullptr, *top_ = nullptr, *end_ = nullptr;
  std::map<char*, size_t> live_;
  std::deque<Region> idle_;                      // freed not long ago
  std::map<size_t, std::vector<char*>> unused_;  // freed long ago, by size
  int opened_ = 0;
};

Arena& arena();

// Device memory is open while one lives.
class OpenArena {
 public:
  OpenArena() { arena().open(); }
  ~OpenArena() { arena().close(); }
  OpenArena(const OpenArena&) = delete;
  OpenArena& operator=(const OpenArena&) = delete;
};

}  // namespace linea::emulator
