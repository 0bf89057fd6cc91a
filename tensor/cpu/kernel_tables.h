// The CPU's kernel tables by topic, for float and double.
#pragma once

#include "tensor/kernels.h"

namespace linea::cpu {

template <typename Topic>
Topic kernels_of();

}  // namespace linea::cpu

// At the end of the file that defines the kernels of a topic and k##Topic<T>, their table.
#define LINEA_KERNELS(Topic)   \
  template <>                  \
  Topic<float> kernels_of() {  \
    return k##Topic<float>;    \
  }                            \
  template <>                  \
  Topic<double> kernels_of() { \
    return k##Topic<double>;   \
  }
