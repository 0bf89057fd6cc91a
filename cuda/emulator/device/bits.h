// Bit and integer intrinsics, and loads and stores with cache hints.
#pragma once

#include <bit>
#include <cstdint>

// ---- bit casts ----

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }

// ---- bit counts and shifts ----

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned __brev(unsigned x) {
  x = (x >> 16) | (x << 16);
  x = ((x & 0xff00ff00u) >> 8) | ((x & 0x00ff00ffu) << 8);
  x = ((x & 0xf0f0f0f0u) >> 4) | ((x & 0x0f0f0f0fu) << 4);
  x = ((x & 0xccccccccu) >> 2) | ((x & 0x33333333u) << 2);
  return ((x & 0xaaaaaaaau) >> 1) | ((x & 0x55555555u) << 1);
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((uint64_t{high} << 32 | low) << (shift & 31)) >> 32);
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}

// ---- the upper half of an integer product ----

inline int __mulhi(int a, int b) { return static_cast<int>((int64_t{a} * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Product = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Product>(a) * b) >> 64);
}

// ---- min and max of integers; math.h has those of floating-point types ----

#define LINEA_MIN_MAX(type)                                    \
  constexpr type min(type a, type b) { return b < a ? b : a; } \
  constexpr type max(type a, type b) { return a < b ? b : a; }
LINEA_MIN_MAX(int)
LINEA_MIN_MAX(unsigned)
LINEA_MIN_MAX(long)
LINEA_MIN_MAX(unsigned long)
LINEA_MIN_MAX(long long)
LINEA_MIN_MAX(unsigned long long)
#undef LINEA_MIN_MAX

// ---- loads and stores ----

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldca(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
