// The widest vectors of the instruction set that this file is compiled for, as the compiler's
// vector types.
#pragma once

namespace linea::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kVectorRegisters = 32;
inline constexpr const char* kIsaName = "AVX-512";
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32, kVectorRegisters = 16;
inline constexpr const char* kIsaName = "AVX2";
#elif defined(__ARM_NEON)
inline constexpr int kVectorBytes = 16, kVectorRegisters = 32;
inline constexpr const char* kIsaName = "NEON";
#else
inline constexpr int kVectorBytes = 16, kVectorRegisters = 16;
inline constexpr const char* kIsaName = "128-bit";
#endif

// A vector of T without alignment; of sizeof(T) bytes: T itself.
template <typename T, int Bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes), aligned(sizeof(T)), may_alias));
};
template <typename T>
struct VectorOf<T, sizeof(T)> {
  using type = T;
};

}  // namespace linea::cpu

// Elements i, j, k and l of the concatenation of a and b. A macro: functions that return vectors
// have no fixed calling convention.
#if __has_builtin(__builtin_shufflevector)
#define LINEA_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else  // g++ 11
#define LINEA_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, decltype(a == b){i, j, k, l})
#endif
