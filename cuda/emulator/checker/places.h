// Names of what a kernel touches and of where it does, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace linea::emulator {

// An array that a kernel declares as shared, in the calling thread's block of thread-local
// variables.
struct SharedArray {
  uintptr_t begin, end;
  std::string name;
  uint32_t block = 0;  // the last that touched it

  bool has(uintptr_t address) const { return address >= begin && address < end; }
};

class Places {
 public:
  // Finds the shared arrays of the program; on another thread of the host they lie elsewhere.
  void find();

  SharedArray* shared_array(uintptr_t address);  // or null
  // Variables and literals of the program itself, which a kernel may read.
  bool in_program(uintptr_t address) const { return address >= begin_ && address < end_; }
  bool in_thread_data(uintptr_t address) const {
    return address >= thread_begin_ && address < thread_end_;
  }

  uint32_t code(const void* address) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) - begin_);
  }
  // Function, file and line, with those that it was inlined into.
  std::string source(uint32_t code) const;
  std::string memory(uintptr_t address) const;

 private:
  uintptr_t begin_ = 0, end_ = 0, thread_begin_ = 0, thread_end_ = 0;
  std::vector<SharedArray> shared_;  // in order
  size_t recent_ = 0;                // the one that was asked for last
};

}  // namespace linea::emulator
