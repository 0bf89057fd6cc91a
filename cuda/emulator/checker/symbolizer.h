// Maps addresses of memory and code to names, for error messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace linea::emulator {

// A __shared__ array of a kernel, in the calling thread's TLS block.
struct SharedArray {
  uintptr_t begin, end;
  std::string name;
  uint32_t block = 0;  // the last block that accessed it

  bool contains(uintptr_t address) const { return address >= begin && address < end; }
};

class Symbolizer {
 public:
  // Finds the program's shared arrays; each host thread has them at other addresses.
  void refresh();

  SharedArray* shared_array(uintptr_t address);  // or null
  // Variables and literals of the program itself, which kernels may read.
  bool in_program(uintptr_t address) const { return address >= begin_ && address < end_; }
  bool in_thread_data(uintptr_t address) const {
    return address >= thread_begin_ && address < thread_end_;
  }

  uint32_t code_offset(const void* address) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) - begin_);
  }
  // Function, file and line, including the functions that it is inlined into.
  std::string source_lines(uint32_t code) const;
  std::string memory_name(uintptr_t address) const;

 private:
  uintptr_t begin_ = 0, end_ = 0, thread_begin_ = 0, thread_end_ = 0;
  std::vector<SharedArray> shared_;  // sorted by address
  size_t recent_ = 0;                // index of the last array found
};

}  // namespace linea::emulator
