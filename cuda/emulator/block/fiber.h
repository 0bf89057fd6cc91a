// A stack that a CUDA thread runs on, and the switch from one to another. 8 instructions of
// assembler on x86-64; elsewhere, or with LINEA_EMULATOR_UCONTEXT, the C library's slower switch.
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
  Fiber() = default;  // of the stack that the host runs on
  explicit Fiber(
      void (*main)());  // with a stack of its own, on which `main` starts and never returns
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes on where `to` switched away last. Returns when someone switches to `from` again.
  static void change(Fiber& from, Fiber& to);
  // What `main` calls first.
  void started();

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
