// bfloat16: the upper half of a float. A storage type; all arithmetic is in float.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/random.h"

namespace linea {

struct BFloat16 {
  uint16_t bits;  // uninitialized: CUDA shared memory allows no initializer

  BFloat16() = default;
  // Round to nearest, ties to even; NaN stays NaN.
  LINEA_HOST_DEVICE explicit BFloat16(float x) {
    uint32_t word = 0;
    memcpy(&word, &x, sizeof(word));
    const uint32_t rounded = word + 0x7FFFu + ((word >> 16) & 1u);
    bits = static_cast<uint16_t>((x == x ? rounded : word | 0x400000u) >> 16);
  }
  LINEA_HOST_DEVICE explicit BFloat16(double x) : BFloat16(static_cast<float>(x)) {}
  LINEA_HOST_DEVICE operator float() const {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float x = 0;
    memcpy(&x, &word, sizeof(x));
    return x;
  }
};

}  // namespace linea
