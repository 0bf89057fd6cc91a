// The kernel tables of a CUDA device by topic, for float, double and BFloat16.
#pragma once

#include <algorithm>

#include "tensor/kernels.h"

namespace linea::cuda {

template <typename Topic>
Topic kernels_of();

// Throws ErrorKind::usage (cuda/errors.cpp; nvcc does not compile fmt's formats).
[[noreturn]] void refuse_kernel(const char* name);

// A name as a template argument.
template <size_t N>
struct KernelName {
  constexpr KernelName(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT: a literal
  char text[N] = {};
};

// A kernel of any arguments that CUDA devices do not have yet: a call is ErrorKind::usage. What a
// CPU alone computes so far fills its topic with these: .gla_forward = NoKernel<"gla">()
template <KernelName name>
struct NoKernel {
  template <typename... Args>
  using Function = void (*)(Args...);
  template <typename... Args>
  constexpr operator Function<Args...>() const {  // NOLINT: in a kernel's place
    return [](Args...) { refuse_kernel(name.text); };
  }
};

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
