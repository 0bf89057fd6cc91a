// Where a CUDA thread is, and where threads meet: barriers of a block, shuffles, votes and sums of
// a warp. Every function that waits takes its caller's place in the source as its last argument,
// for messages.
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

using Place = std::source_location;

inline constexpr unsigned kFullMask = ~0u;

// How many threads of the block pass with `counted`; returns when all have come.
int block_barrier(bool counted, const char* what, Place place);
void warp_barrier(unsigned mask, const char* what, Place place);
unsigned ballot(unsigned mask, bool vote, const char* what, Place place);

// Which lane a shuffle reads: that of the number, or one so many lanes below, above, or different
// in these bits.
enum class ShuffleKind : uint8_t { lane, up, down, exclusive_or };
uint64_t shuffle(ShuffleKind kind, unsigned mask, uint64_t bits, int lane, int width, Place place);

enum class WarpReduction : uint8_t { sum, least, largest, bit_and, bit_or, bit_xor };
int64_t reduce(WarpReduction kind, unsigned mask, int64_t value, Place place);

// What CUDA shuffles.
template <typename T>
concept Shuffled = (std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8)) ||
                   std::same_as<T, __nv_bfloat16> || std::same_as<T, __nv_bfloat162>;

template <Shuffled T>
T shuffle_value(ShuffleKind kind, unsigned mask, T value, int lane, int width, Place place) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(kind, mask, bits, lane, width, place);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace linea::emulator

// ---- a block's barriers ----

inline void __syncthreads(linea::emulator::Place place = linea::emulator::Place::current()) {
  linea::emulator::block_barrier(false, "__syncthreads", place);
}

inline int __syncthreads_count(int predicate,
                               linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::block_barrier(predicate != 0, "__syncthreads_count", place);
}

inline int __syncthreads_or(int predicate,
                            linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::block_barrier(predicate != 0, "__syncthreads_or", place) != 0;
}

inline int __syncthreads_and(int predicate,
                             linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::block_barrier(predicate == 0, "__syncthreads_and", place) == 0;
}

// ---- a warp's ----

inline void __syncwarp(unsigned mask = linea::emulator::kFullMask,
                       linea::emulator::Place place = linea::emulator::Place::current()) {
  linea::emulator::warp_barrier(mask, "__syncwarp", place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::ballot(mask, predicate != 0, "__ballot_sync", place);
}

inline int __any_sync(unsigned mask, int predicate,
                      linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::ballot(mask, predicate != 0, "__any_sync", place) != 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::ballot(mask, predicate == 0, "__all_sync", place) == 0;
}

unsigned __activemask();

template <linea::emulator::Shuffled T>
T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize,
              linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::lane, mask, value, lane,
                                        width, place);
}

template <linea::emulator::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = warpSize,
                 linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::up, mask, value,
                                        static_cast<int>(lanes), width, place);
}

template <linea::emulator::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = warpSize,
                   linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::down, mask, value,
                                        static_cast<int>(lanes), width, place);
}

template <linea::emulator::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize,
                  linea::emulator::Place place = linea::emulator::Place::current()) {
  return linea::emulator::shuffle_value(linea::emulator::ShuffleKind::exclusive_or, mask, value,
                                        bits, width, place);
}

#define LINEA_WARP_REDUCTION(name, type, kind)                                              \
  inline type name(unsigned mask, type value,                                               \
                   linea::emulator::Place place = linea::emulator::Place::current()) {      \
    return static_cast<type>(                                                               \
        linea::emulator::reduce(linea::emulator::WarpReduction::kind, mask, value, place)); \
  }
LINEA_WARP_REDUCTION(__reduce_add_sync, int, sum)
LINEA_WARP_REDUCTION(__reduce_add_sync, unsigned, sum)
LINEA_WARP_REDUCTION(__reduce_min_sync, int, least)
LINEA_WARP_REDUCTION(__reduce_min_sync, unsigned, least)
LINEA_WARP_REDUCTION(__reduce_max_sync, int, largest)
LINEA_WARP_REDUCTION(__reduce_max_sync, unsigned, largest)
LINEA_WARP_REDUCTION(__reduce_and_sync, unsigned, bit_and)
LINEA_WARP_REDUCTION(__reduce_or_sync, unsigned, bit_or)
LINEA_WARP_REDUCTION(__reduce_xor_sync, unsigned, bit_xor)
#undef LINEA_WARP_REDUCTION

// ---- order of memory: one block runs at a time, and a thread of it until it waits ----

inline void __threadfence_block() {}
inline void __threadfence() {}
inline void __threadfence_system() {}
