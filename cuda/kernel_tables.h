// The kernel tables of a CUDA device by topic, for float, double and BFloat16.
#pragma once

#include <algorithm>
#include <utility>

#include "tensor/kernels.h"

namespace linea::cuda {

template <typename Topic>
Topic kernels_of();

// Throw ErrorKind::usage (cuda/errors.cpp; nvcc does not compile fmt's formats): CUDA devices do
// not have this kernel yet; those of this topic have none for bf16.
[[noreturn]] void refuse_kernel(const char* name);
[[noreturn]] void refuse_bf16(const char* topic);

// A name as a template argument.
template <size_t N>
struct KernelName {
  constexpr KernelName(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT: a literal
  char text[N] = {};
};

// A kernel of any arguments that is not there: a call throws. What a CPU alone computes so far has
// these in its place: .unit_rows = NoKernel<"unit_rows">()
template <KernelName name, void (*kRefuse)(const char*) = refuse_kernel>
struct NoKernel {
  template <typename... Args>
  using Function = void (*)(Args...);
  template <typename... Args>
  constexpr operator Function<Args...>() const {  // NOLINT: in a kernel's place
    return [](Args...) { kRefuse(name.text); };
  }
  // A topic's table of these.
  template <typename Topic>
  static constexpr Topic table() {
    return []<size_t... I>(std::index_sequence<I...>)->Topic {
      return {(static_cast<void>(I), NoKernel())...};
    }
    (std::make_index_sequence<sizeof(Topic) / sizeof(void (*)())>());
  }
};

}  // namespace linea::cuda

#define LINEA_KERNELS_OF(Topic, T, ...) \
  template <>                           \
  Topic<T> kernels_of() {               \
    return __VA_ARGS__;                 \
  }

// Kernels of double serve comparisons on the emulated GPU; checked builds omit them: their code is
// that of float, and they take a third of the compile time.
#ifdef LINEA_CUDA_WITHOUT_DOUBLE
#define LINEA_DOUBLE_TABLE(Topic) Topic<double>()
#else
#define LINEA_DOUBLE_TABLE(Topic) k##Topic<double>
#endif

#define LINEA_KERNEL_TABLES(Topic, bf16, ...)                \
  template <typename T>                                      \
  constexpr Topic<T> k##Topic = {__VA_ARGS__};               \
  LINEA_KERNELS_OF(Topic, float, k##Topic<float>)            \
  LINEA_KERNELS_OF(Topic, double, LINEA_DOUBLE_TABLE(Topic)) \
  LINEA_KERNELS_OF(Topic, BFloat16, bf16)

// At the end of the file that defines the kernels of a topic: their table, as designated
// initializers, for all types; for float and double, where no program has bf16; or for none.
#define LINEA_KERNEL_TABLE(Topic, ...) LINEA_KERNEL_TABLES(Topic, k##Topic<BFloat16>, __VA_ARGS__)
#define LINEA_REAL_KERNEL_TABLE(Topic, ...) \
  LINEA_KERNEL_TABLES(Topic, (NoKernel<#Topic, refuse_bf16>::table<Topic<BFloat16>>()), __VA_ARGS__)
#define LINEA_NO_KERNELS(Topic, name)                                     \
  LINEA_KERNELS_OF(Topic, float, NoKernel<name>::table<Topic<float>>())   \
  LINEA_KERNELS_OF(Topic, double, NoKernel<name>::table<Topic<double>>()) \
  LINEA_KERNELS_OF(Topic, BFloat16, NoKernel<name>::table<Topic<BFloat16>>())
