#include "cuda/emulator/block/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "cuda/emulator/report.h"
#include "cuda/emulator/sanitizer.h"

#ifndef LINEA_EMULATOR_UCONTEXT
// Saves what the ABI says a called function keeps, then takes the other stack with what it saved.
extern "C" void linea_change_stack(void** save_pointer, void* load_pointer);
asm(R"(.text
.globl linea_change_stack
.type linea_change_stack,@function
linea_change_stack:
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
.size linea_change_stack,.-linea_change_stack
)");
#endif

namespace linea::emulator {
namespace {

constexpr size_t kStack = (kAddressSanitizer ? 512 : 128) << 10, kGuard = 4096;

// Of a stack's end, unused: threads stand at the same depth mostly, and what lies at the same place
// of many pages shares a few lines of a cache.
size_t stagger() {
  static size_t made = 0;
  return made++ % 32 * 128;
}

[[maybe_unused]] Fiber* g_left = nullptr;  // the fiber that switched away last

}  // namespace

Fiber::Fiber(void (*main)()) : stack_bytes_(kStack) {
  constexpr int kKind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  mapping_ = mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE, kKind, -1, 0);
  if (mapping_ == MAP_FAILED) stop("no memory for the stack of a CUDA thread");
  mprotect(mapping_, kGuard, PROT_NONE);
  stack_ = static_cast<char*>(mapping_) + kGuard;
  const size_t used = kStack - stagger();
#ifdef LINEA_EMULATOR_UCONTEXT
  getcontext(&registers_);
  registers_.uc_stack.ss_sp = stack_;
  registers_.uc_stack.ss_size = used;
  makecontext(&registers_, main, 0);
#else
  // As if the fiber had just switched away: six registers and where to return to. The zero above
  // ends backtraces.
  void** frame = reinterpret_cast<void**>(static_cast<char*>(stack_) + used - 64);
  std::memset(frame, 0, 64);
  frame[6] = reinterpret_cast<void*>(main);
  stack_pointer_ = frame;
#endif
}

Fiber::~Fiber() {
  if (mapping_ != nullptr) munmap(mapping_, kStack + kGuard);
}

void Fiber::change(Fiber& from, Fiber& to) {
#ifdef LINEA_ADDRESS_SANITIZER
  g_left = &from;
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_, to.stack_bytes_);
#endif
#ifdef LINEA_EMULATOR_UCONTEXT
  swapcontext(&from.registers_, &to.registers_);
#else
  linea_change_stack(&from.stack_pointer_, to.stack_pointer_);
#endif
  from.started();
}

// The sanitizer says which stack it left: so the bounds of the host's become known.
void Fiber::started() {
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
