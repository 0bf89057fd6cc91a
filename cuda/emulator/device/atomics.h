// Atomics, for the types for which CUDA has them. Between two waits a thread runs alone, so a plain
// read and write is atomic; the checker is told that the access was one.
#pragma once

#include <cuda_bf16.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace linea::emulator {

enum class Access : uint8_t { read, write, atomic };

// Tells the checker, where there is one, that the running CUDA thread touches these bytes from code
// that the checker does not see. `code`: an address in that code.
void note_access(const void* data, size_t bytes, Access access, const void* code);

template <typename T, typename... Types>
concept OneOf = (std::same_as<T, Types> || ...);

template <typename T, typename Change>
__attribute__((noinline, no_sanitize("thread"))) T atomically(T* at, Change change) {
  note_access(at, sizeof(T), Access::atomic, __builtin_return_address(0));
  const T before = *at;
  *at = change(before);
  return before;
}

}  // namespace linea::emulator

template <linea::emulator::OneOf<int, unsigned, unsigned long long, float, double, __nv_bfloat16,
                                 __nv_bfloat162>
              T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T before) { return before + value; });
}

template <linea::emulator::OneOf<int, unsigned> T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T before) { return before - value; });
}

template <linea::emulator::OneOf<int, unsigned, long long, unsigned long long> T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T before) { return before > value ? before : value; });
}

template <linea::emulator::OneOf<int, unsigned, long long, unsigned long long> T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T before) { return before < value ? before : value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long> T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T before) { return before & value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long> T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T before) { return before | value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long> T>
T atomicXor(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T before) { return before ^ value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long, float> T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at, [=](T) { return value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long, unsigned short> T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return linea::emulator::atomically(at,
                                     [=](T before) { return before == expected ? value : before; });
}
