// Device memory: one range of addresses, with a long quarantine for freed allocations, so that a
// dangling pointer does not reach another allocation. Fresh memory is filled with NaN.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <vector>

namespace linea::emulator {

class Arena {
 public:
  // Null if the address range is exhausted.
  void* allocate(size_t bytes);
  // Called after allocate() and to free; stream-ordered allocation runs both on the stream.
  void fill(void* data);
  void release(void* data);

  // The allocation that contains this address; {nullptr, 0} if there is none.
  struct Allocation {
    char* data;
    size_t bytes;
  };
  Allocation find(const void* address) const;
  bool contains(const void* address) const { return address >= base_ && address < end_; }

  // Fatal unless all the bytes are in one live allocation; `what`: the access, for the message.
  void check_range(const void* data, size_t bytes, const char* what) const;

  // With the guard enabled, the host may access device memory only between these calls.
  void allow_access();
  void deny_access();

 private:
  struct Region {  // an allocation and the red zone after it
    char* data;
    size_t bytes;
  };
  void reserve();
  Region take(size_t bytes);
  void protect(int access);  // of all addresses used so far

  char *base_ = nullptr, *top_ = nullptr, *end_ = nullptr;
  std::map<char*, size_t> live_;
  std::deque<Region> quarantine_;
  std::map<size_t, std::vector<char*>> reusable_;  // by size
  int num_accesses_ = 0;
};

Arena& arena();

// Allows access to device memory for its scope.
class ArenaAccess {
 public:
  ArenaAccess() { arena().allow_access(); }
  ~ArenaAccess() { arena().deny_access(); }
  ArenaAccess(const ArenaAccess&) = delete;
  ArenaAccess& operator=(const ArenaAccess&) = delete;
};

}  // namespace linea::emulator
