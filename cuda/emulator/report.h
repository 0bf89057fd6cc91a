// How the emulator says what is wrong with a kernel, and with which thread of it: then the process
// aborts, for what a GPU does from there on is undefined.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace linea::emulator {

// "CUDA emulator: <message>", and the block and thread that run.
[[noreturn]] void stop_with(const std::string& message);

template <typename... Args>
[[noreturn]] void stop(fmt::format_string<Args...> text, Args&&... args) {
  stop_with(fmt::format(text, std::forward<Args>(args)...));
}

// "block (1,0,0) thread (3,0,0) of scale(float*)"; empty where no kernel runs.
std::string running_thread();

// Lets what kills the process (a bad address, the address sanitizer) name the running thread. Once
// is enough.
void watch_signals();

}  // namespace linea::emulator
