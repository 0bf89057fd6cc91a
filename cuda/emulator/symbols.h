// The symbol table of the running program, for error messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace linea::emulator {

struct Symbol {
  std::string name;   // mangled
  uintptr_t address;  // of a thread-local variable: its offset in the TLS block
  uintptr_t bytes;
  bool thread_local_data;
};

// All functions and thread-local variables of the program; empty if it was stripped.
const std::vector<Symbol>& program_symbols();

// "scale<float>(float*)", or the address in hexadecimal.
std::string symbol_name(const void* function);
std::string demangle(const std::string& name);

// The address ranges of the program and of the calling thread's TLS block.
struct ProgramImage {
  uintptr_t begin = 0, end = 0;
  uintptr_t thread_begin = 0, thread_end = 0;
};
ProgramImage program_image();

}  // namespace linea::emulator
