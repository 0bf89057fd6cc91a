#include "cuda/emulator/report.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/runtime/arena.h"
#include "cuda/emulator/sanitizer.h"
#include "cuda/emulator/symbols.h"

namespace linea::emulator {
namespace {

void print(const std::string& line) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

[[maybe_unused]] void print_running_thread() {
  const std::string thread = running_thread();
  if (!thread.empty()) print("CUDA emulator: in " + thread);
}

// Not async-signal-safe; the process ends in any case.
[[maybe_unused]] void on_signal(int number, siginfo_t* info, void*) {
  std::signal(number, SIG_DFL);
  if (number == SIGSEGV && !in_kernel && arena().contains(info->si_addr))
    print(fmt::format(
        "CUDA emulator: the host accessed device memory at {} outside of a copy or kernel",
        info->si_addr));
  print(fmt::format("CUDA emulator: signal {} ({})", number, strsignal(number)));
  print_running_thread();
  std::raise(number);
}

}  // namespace

std::string to_string(const std::source_location& location) {
  return fmt::format("{}:{}", location.file_name(), location.line());
}

std::string running_thread() {
  if (!block.running()) return "";
  return fmt::format("block ({},{},{}) thread ({},{},{}) of {}", blockIdx.x, blockIdx.y, blockIdx.z,
                     threadIdx.x, threadIdx.y, threadIdx.z, symbol_name(block.launch().kernel));
}

void fatal_with(const std::string& message) {
  in_kernel = false;
  const std::string thread = running_thread();
  print("CUDA emulator: " + message + (thread.empty() ? "" : "\n    in " + thread));
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

void install_signal_handlers() {
  static const bool done = [] {
#ifdef LINEA_ADDRESS_SANITIZER
    __sanitizer_set_death_callback(print_running_thread);
#else
    // On a separate stack: the kernel may have overflowed that of its fiber.
    static char stack[1 << 16];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof(stack);
    sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(number, &action, nullptr);
#endif
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace linea::emulator
