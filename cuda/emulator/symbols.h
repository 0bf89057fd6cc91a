// Names in the running program, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace linea::emulator {

struct Symbol {
  std::string name;  // as the linker knows it
  uintptr_t
      address;  // of a thread-local variable: from the start of a thread's block of such variables
  uintptr_t bytes;
  bool thread_local_data;
};

// All functions and thread-local variables of the program; none where it was stripped.
const std::vector<Symbol>& program_symbols();

// "scale<float>(float*)", or the address in hexadecimal.
std::string symbol_name(const void* function);
std::string demangled(const std::string& name);

// Where the program lies in memory, and the calling thread's block of thread-local variables.
struct ProgramImage {
  uintptr_t begin = 0, end = 0;
  uintptr_t thread_begin = 0, thread_end = 0;
};
ProgramImage program_image();

}  // namespace linea::emulator
