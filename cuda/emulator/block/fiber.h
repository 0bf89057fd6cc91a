// Stacks of CUDA threads, and context switches between them: assembly on x86-64; the C library's
// slower swapcontext elsewhere or with LINEA_EMULATOR_UCONTEXT.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(LINEA_EMULATOR_UCONTEXT)
#define LINEA_EMULATOR_UCONTEXT
#endif
#ifdef LINEA_EMULATOR_UCONTEXT
#include <ucontext.h>
#endif

namespace linea::emulator {

class Fiber {
 public:
  // The host's own stack.
  Fiber() = default;
  // A new stack, on which `main` runs. It must not return.
  explicit Fiber(void (*main)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Continues `to` where it last switched away. Returns on the next switch to `from`.
  static void switch_to(Fiber& from, Fiber& to);
  // Must be the first call of `main`.
  void finish_switch();

  const void* stack() const { return stack_; }
  size_t stack_bytes() const { return stack_bytes_; }

 private:
#ifdef LINEA_EMULATOR_UCONTEXT
  ucontext_t registers_{};
#else
  void* stack_pointer_ = nullptr;
#endif
  void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* mapping_ = nullptr;
  void* fake_stack_ = nullptr;  // the address sanitizer's
};

}  // namespace linea::emulator
