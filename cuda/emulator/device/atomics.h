// Atomics, for the types that CUDA supports. Threads never run concurrently, so a plain read and
// write is atomic; the checker records it as an atomic access.
#pragma once

#include <cuda_bf16.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace linea::emulator {

enum class Access : uint8_t { read, write, atomic };

// In place of a lane's number, where an access counts (counts.h): for the running lane, or for none.
inline constexpr int kRunningLane = -1, kNoLane = -2;

// Reports an access by the running CUDA thread to the checker, if any, from code that is not
// instrumented. `code`: an address in that code.
void record_access(const void* data, size_t bytes, Access access, const void* code,
                   int lane = kRunningLane);

template <typename T, typename... Types>
concept OneOf = (std::same_as<T, Types> || ...);

template <typename T, typename Update>
__attribute__((noinline, no_sanitize("thread"))) T atomically(T* address, Update update) {
  record_access(address, sizeof(T), Access::atomic, __builtin_return_address(0));
  const T before = *address;
  *address = update(before);
  return before;
}

}  // namespace linea::emulator

template <linea::emulator::OneOf<int, unsigned, unsigned long long, float, double, __nv_bfloat16,
                                 __nv_bfloat162>
              T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address, [=](T before) { return before + value; });
}

template <linea::emulator::OneOf<int, unsigned> T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address, [=](T before) { return before - value; });
}

template <linea::emulator::OneOf<int, unsigned, long long, unsigned long long> T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address,
                                     [=](T before) { return before > value ? before : value; });
}

template <linea::emulator::OneOf<int, unsigned, long long, unsigned long long> T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address,
                                     [=](T before) { return before < value ? before : value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long> T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address, [=](T before) { return before & value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long> T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address, [=](T before) { return before | value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long> T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address, [=](T before) { return before ^ value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long, float> T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address, [=](T) { return value; });
}

template <linea::emulator::OneOf<int, unsigned, unsigned long long, unsigned short> T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return linea::emulator::atomically(address,
                                     [=](T before) { return before == expected ? value : before; });
}
