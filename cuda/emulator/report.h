// Error reports. An error in a kernel aborts the process: on a GPU, its behavior from then on is
// undefined.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <string>
#include <utility>

namespace linea::emulator {

// Prints "CUDA emulator: <message>" with the running block and thread, and aborts.
[[noreturn]] void fatal_with(const std::string& message);

template <typename... Args>
[[noreturn]] void fatal(fmt::format_string<Args...> text, Args&&... args) {
  fatal_with(fmt::format(text, std::forward<Args>(args)...));
}

// "softmax.cu:17"
std::string to_string(const std::source_location& location);

// "block (1,0,0) thread (3,0,0) of scale(float*)"; empty if no kernel runs.
std::string running_thread();

// Makes fatal signals (a bad address, the address sanitizer) report the running thread. Only the
// first call has an effect.
void install_signal_handlers();

}  // namespace linea::emulator
