// The storage of a recurrent state with bf16 keys.
#pragma once

#include "tensor/bfloat16.h"
#include "tensor/formulas.h"

namespace linea::cuda {

// A float split into its nearest bf16 (ties away from 0), which alone suffices for most readers,
// and its lower 16 bits (not a number by themselves), which recover it exactly.
struct SplitFloat {
  BFloat16 high, low;

  LINEA_HOST_DEVICE SplitFloat(BFloat16 upper, BFloat16 lower) : high(upper), low(lower) {}
  LINEA_HOST_DEVICE explicit SplitFloat(float x) {
    uint32_t word = same_bits<uint32_t>(x);
    if (x != x) word = (word | 0x400000u) & 0xFFFF7FFFu;  // keeps NaN a NaN
    high.bits = static_cast<uint16_t>((word + 0x8000u) >> 16);
    low.bits = static_cast<uint16_t>(word);
  }
  LINEA_HOST_DEVICE float whole() const {
    const uint32_t rounded_up = low.bits >> 15;
    return same_bits<float>(((high.bits - rounded_up) << 16) | low.bits);
  }
};

}  // namespace linea::cuda
