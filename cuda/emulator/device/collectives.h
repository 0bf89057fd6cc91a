// Thread and block indices, block barriers, and warp shuffles, votes and reductions. Every function
// that waits takes its caller's source location as its last argument, for error messages.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <concepts>
#include <cstdint>
#include <cstring>
#include <source_location>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace linea::emulator {

inline constexpr unsigned kFullMask = ~0u;

// Waits for all threads of the block; returns the number of those whose predicate is true.
int block_barrier(bool predicate, const char* function, std::source_location location);
void warp_barrier(unsigned mask, const char* function, std::source_location location);
unsigned ballot(unsigned mask, bool vote, const char* function, std::source_location location);

// The source of a shuffle: a lane by number, or one relative to the caller by offset or XOR mask.
enum class ShuffleKind : uint8_t { lane, up, down, exclusive_or };
uint64_t shuffle(ShuffleKind kind, unsigned mask, uint64_t bits, int lane, int width,
                 std::source_location location);

enum class WarpReduction : uint8_t { sum, min, max, bit_and, bit_or, bit_xor };
int64_t reduce(WarpReduction kind, unsigned mask, int64_t value, std::source_location location);

// The types that CUDA shuffles.
template <typename T>
concept Shuffled = (std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8)) ||
                   std::same_as<T, __nv_bfloat16> || std::same_as<T, __nv_bfloat162>;

template <Shuffled T>
T shuffle_value(ShuffleKind kind, unsigned mask, T value, int lane, int width,
                std::source_location location) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(kind, mask, bits, lane, width, location);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace linea::emulator

// ---- block barriers ----

inline void __syncthreads(std::source_location location = std::source_location::current()) {
  linea::emulator::block_barrier(false, "__syncthreads", location);
}

inline int __syncthreads_count(int predicate,
                               std::source_location location = std::source_location::current()) {
  return linea::emulator::block_barrier(predicate != 0, "__syncthreads_count", location);
}

inline int __syncthreads_or(int predicate,
                            std::source_location location = std::source_location::current()) {
  return linea::emulator::block_barrier(predicate != 0, "__syncthreads_or", location) != 0;
}

inline int __syncthreads_and(int predicate,
                             std::source_location location = std::source_location::current()) {
  return linea::emulator::block_barrier(predicate == 0, "__syncthreads_and", location) == 0;
}

// ---- warp operations ----

inline void __syncwarp(unsigned mask = linea::emulator::kFullMask,
                       std::source_location location = std::source_location::current()) {
  linea::emulator::warp_barrier(mask, "__syncwarp", location);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location location = std::source_location::current()) {
  return linea::emulator::ballot(mask, predicate != 0, "__ballot_sync", location);
}

inline int __any_sync(unsigned mask, int predicate,
                      std::source_location location = std::source_location::current()) {
  return linea::emulator::ballot(mask, predicate != 0, "__any_sync", location) != 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      std::source_location location = std::source_location::current()) {
  return linea::emulator::ballot(mask, predicate == 0, "__all_sync", location) == 0;
}

unsigned __activemask();

template <linea::emulator::Shuffled T>
T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize,
              std::source_location location = std::source_location::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::lane, mask, value, lane,
                                        width, location);
}

template <linea::emulator::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = warpSize,
                 std::source_location location = std::source_location::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::up, mask, value,
                                        static_cast<int>(lanes), width, location);
}

template <linea::emulator::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = warpSize,
                   std::source_location location = std::source_location::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::down, mask, value,
                                        static_cast<int>(lanes), width, location);
}

template <linea::emulator::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize,
                  std::source_location location = std::source_location::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::exclusive_or, mask, value,
                                        bits, width, location);
}

#define LINEA_WARP_REDUCTION(name, type, kind)                                                 \
  inline type name(unsigned mask, type value,                                                  \
                   std::source_location location = std::source_location::current()) {          \
    return static_cast<type>(                                                                  \
        linea::emulator::reduce(linea::emulator::WarpReduction::kind, mask, value, location)); \
  }
LINEA_WARP_REDUCTION(__reduce_add_sync, int, sum)
LINEA_WARP_REDUCTION(__reduce_add_sync, unsigned, sum)
LINEA_WARP_REDUCTION(__reduce_min_sync, int, min)
LINEA_WARP_REDUCTION(__reduce_min_sync, unsigned, min)
LINEA_WARP_REDUCTION(__reduce_max_sync, int, max)
LINEA_WARP_REDUCTION(__reduce_max_sync, unsigned, max)
LINEA_WARP_REDUCTION(__reduce_and_sync, unsigned, bit_and)
LINEA_WARP_REDUCTION(__reduce_or_sync, unsigned, bit_or)
LINEA_WARP_REDUCTION(__reduce_xor_sync, unsigned, bit_xor)
#undef LINEA_WARP_REDUCTION

// ---- memory fences: no-ops, as threads never run concurrently ----

inline void __threadfence_block() {}
inline void __threadfence() {}
inline void __threadfence_system() {}
