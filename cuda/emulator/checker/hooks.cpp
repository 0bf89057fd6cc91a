// The functions that g++ calls at each memory access in code compiled with -fsanitize=thread. They
// replace the thread sanitizer's library, which is not linked. Only accesses by kernels are
// checked; host code in the same files runs unchecked.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker/kernel_checker.h"

using linea::emulator::Access;

namespace {

void access(const void* data, size_t bytes, Access kind, const void* code) {
  if (linea::emulator::in_kernel && bytes > 0)
    linea::emulator::kernel_checker().on_access(data, bytes, kind, code,
                                                linea::emulator::kRunningLane);
}

}  // namespace

#define HERE __builtin_return_address(0)

extern "C" {

#define LINEA_HOOKS(bytes)                                                                     \
  void __tsan_read##bytes(void* data) { access(data, bytes, Access::read, HERE); }             \
  void __tsan_write##bytes(void* data) { access(data, bytes, Access::write, HERE); }           \
  void __tsan_unaligned_read##bytes(void* data) { access(data, bytes, Access::read, HERE); }   \
  void __tsan_unaligned_write##bytes(void* data) { access(data, bytes, Access::write, HERE); } \
  void __tsan_volatile_read##bytes(void* data) { access(data, bytes, Access::read, HERE); }    \
  void __tsan_volatile_write##bytes(void* data) { access(data, bytes, Access::write, HERE); }
LINEA_HOOKS(1)
LINEA_HOOKS(2)
LINEA_HOOKS(4)
LINEA_HOOKS(8)
LINEA_HOOKS(16)

void __tsan_read_range(void* data, unsigned long bytes) { access(data, bytes, Access::read, HERE); }
void __tsan_write_range(void* data, unsigned long bytes) {
  access(data, bytes, Access::write, HERE);
}

void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  access(from, bytes, Access::read, HERE);
  access(to, bytes, Access::write, HERE);
  return std::memcpy(to, from, bytes);
}

void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
  access(from, bytes, Access::read, HERE);
  access(to, bytes, Access::write, HERE);
  return std::memmove(to, from, bytes);
}

void* __tsan_memset(void* to, int value, unsigned long bytes) {
  access(to, bytes, Access::write, HERE);
  return std::memset(to, value, bytes);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// ---- atomics of host code in those files: function-local statics, shared pointers ----

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

#define LINEA_ATOMICS(bits, type)                                                           \
  type __tsan_atomic##bits##_load(const volatile type* address, int) {                      \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                      \
  }                                                                                         \
  void __tsan_atomic##bits##_store(volatile type* address, type value, int) {               \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                     \
  }                                                                                         \
  type __tsan_atomic##bits##_exchange(volatile type* address, type value, int) {            \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                           \
  }                                                                                         \
  type __tsan_atomic##bits##_fetch_add(volatile type* address, type value, int) {           \
    return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);                            \
  }                                                                                         \
  type __tsan_atomic##bits##_fetch_sub(volatile type* address, type value, int) {           \
    return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);                            \
  }                                                                                         \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* address, type* expected, \
                                                    type value, int, int) {                 \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,   \
                                       __ATOMIC_SEQ_CST);                                   \
  }
LINEA_ATOMICS(8, unsigned char)
LINEA_ATOMICS(32, unsigned)
LINEA_ATOMICS(64, unsigned long)

}  // extern "C"
