#include "cuda/emulator/block/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "cuda/emulator/report.h"
#include "cuda/emulator/sanitizer.h"

#ifndef LINEA_EMULATOR_UCONTEXT
// Saves the callee-saved registers of the ABI and switches to the other stack.
extern "C" void linea_switch_stack(void** save_pointer, void* load_pointer);
asm(R"(.text
.globl linea_switch_stack
.type linea_switch_stack,@function
linea_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size linea_switch_stack,.-linea_switch_stack
)");
#endif

namespace linea::emulator {
namespace {

constexpr size_t kStack = (kAddressSanitizer ? 512 : 128) << 10, kGuard = 4096;

// An unused offset at the top of each stack. Most threads wait at the same call depth, so without
// it their frames would compete for a few cache sets.
size_t stagger() {
  static size_t num_stacks = 0;
  return num_stacks++ % 32 * 128;
}

[[maybe_unused]] Fiber* g_left = nullptr;  // the fiber that switched away last

}  // namespace

Fiber::Fiber(void (*main)()) : stack_bytes_(kStack) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  mapping_ = mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (mapping_ == MAP_FAILED) fatal("out of memory for the stack of a CUDA thread");
  mprotect(mapping_, kGuard, PROT_NONE);
  stack_ = static_cast<char*>(mapping_) + kGuard;
  const size_t used = kStack - stagger();
#ifdef LINEA_EMULATOR_UCONTEXT
  getcontext(&registers_);
  registers_.uc_stack.ss_sp = stack_;
  registers_.uc_stack.ss_size = used;
  makecontext(&registers_, main, 0);
#else
  // The stack of a fiber that has just switched away: six registers and the return address. The
  // zero above them ends backtraces.
  void** frame = reinterpret_cast<void**>(static_cast<char*>(stack_) + used - 64);
  std::memset(frame, 0, 64);
  frame[6] = reinterpret_cast<void*>(main);
  stack_pointer_ = frame;
#endif
}

Fiber::~Fiber() {
  if (mapping_ != nullptr) munmap(mapping_, kStack + kGuard);
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
#ifdef LINEA_ADDRESS_SANITIZER
  g_left = &from;
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_, to.stack_bytes_);
#endif
#ifdef LINEA_EMULATOR_UCONTEXT
  swapcontext(&from.registers_, &to.registers_);
#else
  linea_switch_stack(&from.stack_pointer_, to.stack_pointer_);
#endif
  from.finish_switch();
}

// The sanitizer reports the bounds of the stack it left, the only source of those of the host.
void Fiber::finish_switch() {
#ifdef LINEA_ADDRESS_SANITIZER
  const void* stack = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &stack, &bytes);
  if (g_left->mapping_ == nullptr) {
    g_left->stack_ = const_cast<void*>(stack);
    g_left->stack_bytes_ = bytes;
  }
#endif
}

}  // namespace linea::emulator
