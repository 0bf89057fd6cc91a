#include "base/subnormals.h"

#include <cstdint>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace linea {

void flush_subnormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushResults = 1 << 15, kZeroInputs = 1 << 6;  // of MXCSR
  _mm_setcsr(_mm_getcsr() | kFlushResults | kZeroInputs);
#elif defined(__aarch64__)
  constexpr uint64_t kFlush = uint64_t{1} << 24;  // of FPCR, inputs and results
  uint64_t control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | kFlush));
#endif
}

}  // namespace linea
