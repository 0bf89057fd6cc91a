// The kernel tables of a CUDA device by topic, for float, double and BFloat16.
#pragma once

#include "tensor/kernels.h"

namespace linea::cuda {

template <typename Topic>
Topic kernels_of();

}  // namespace linea::cuda

// Kernels of double serve comparisons on the emulated GPU; checked builds omit them: their code is
// that of float, and they take a third of the compile time.
#ifdef LINEA_CUDA_WITHOUT_DOUBLE
#define LINEA_DOUBLE_TABLE(Topic) Topic<double>()
#else
#define LINEA_DOUBLE_TABLE(Topic) k##Topic<double>
#endif

// The tables k##Topic<T> of a topic, for all types.
#define LINEA_KERNELS(Topic)          \
  template <>                         \
  Topic<float> kernels_of() {         \
    return k##Topic<float>;           \
  }                                   \
  template <>                         \
  Topic<double> kernels_of() {        \
    return LINEA_DOUBLE_TABLE(Topic); \
  }                                   \
  template <>                         \
  Topic<BFloat16> kernels_of() {      \
    return k##Topic<BFloat16>;        \
  }

// At the end of the file that defines the kernels of a topic: their table, as designated initializers.
#define LINEA_KERNEL_TABLE(Topic, ...)         \
  template <typename T>                        \
  constexpr Topic<T> k##Topic = {__VA_ARGS__}; \
  LINEA_KERNELS(Topic)
