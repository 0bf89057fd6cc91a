// The CPU's kernel tables by topic, for float and double.
#pragma once

#include "tensor/kernels.h"

namespace linea::cpu {

template <typename Topic>
Topic kernels_of();

}  // namespace linea::cpu

// At the end of the file that defines the kernels of a topic: their table, as designated initializers.
#define LINEA_KERNEL_TABLE(Topic, ...)         \
  template <typename T>                        \
  constexpr Topic<T> k##Topic = {__VA_ARGS__}; \
  template <>                                  \
  Topic<float> kernels_of() {                  \
    return k##Topic<float>;                    \
  }                                            \
  template <>                                  \
  Topic<double> kernels_of() {                 \
    return k##Topic<double>;                   \
  }
