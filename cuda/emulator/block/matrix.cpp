// Tensor cores: what a warp does with tiles, by the last lane that comes.
#include "cuda/emulator/device/matrix.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/block/lanes.h"
#include "cuda/emulator/device/atomics.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {
namespace {

constexpr unsigned kAllLanes = ~0u;

void need_all(const char* what, unsigned lanes) {
  if (lanes != kAllLanes)
    stop("{} needs all 32 lanes of a warp; {} are there", what, std::popcount(lanes));
}

// As tensor cores add: what does not fit is cut off, not rounded.
float cut_sum(float a, float b) {
  const double exact = static_cast<double>(a) + static_cast<double>(b);
  const auto nearest = static_cast<float>(exact);
  return std::abs(static_cast<double>(nearest)) > std::abs(exact) ? std::nextafter(nearest, 0.0f)
                                                                  : nearest;
}

float half_of(uint32_t pair, bool upper) {
  return std::bit_cast<float>(upper ? pair & 0xffff0000u : pair << 16);
}

// ---- mma.sync.m16n8k16 of bf16: lane 4 g + t holds rows g and g + 8 of A and D, column g of B
// ----

struct Product {
  float* d;
  const uint32_t *a, *b;
};

// Each lane's four sums of D.
void add_to_lanes(void* const* arguments, const float (&sums)[16][8]) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      float& d = of<Product>(arguments[lane]).d[i];
      d = cut_sum(d, sums[g + ((i & 2) != 0 ? 8 : 0)][t * 2 + (i & 1)]);
    }
  }
}

void multiply(void* const* arguments, unsigned lanes) {
  need_all("mma.sync", lanes);
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Product& mine = of<Product>(arguments[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 8; ++i)
      a[g + ((i & 2) != 0 ? 8 : 0)][t * 2 + (i & 1) + ((i & 4) != 0 ? 8 : 0)] =
          half_of(mine.a[i / 2], (i & 1) != 0);
    for (int i = 0; i < 4; ++i)
      b[t * 2 + (i & 1) + ((i & 2) != 0 ? 8 : 0)][g] = half_of(mine.b[i / 2], (i & 1) != 0);
  }
  float sums[16][8] = {};
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column) sums[row][column] += a[row][k] * b[k][column];
  add_to_lanes(arguments, sums);
}

// ---- mma.sync.m16n8k8 of TF32: the words' lower 13 bits do not count ----

float tf32_of(uint32_t word) { return std::bit_cast<float>(word & 0xffffe000u); }

void multiply_words(void* const* arguments, unsigned lanes) {
  need_all("mma.sync", lanes);
  float a[16][8], b[8][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Product& mine = of<Product>(arguments[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i)
      a[g + ((i & 1) != 0 ? 8 : 0)][t + ((i & 2) != 0 ? 4 : 0)] = tf32_of(mine.a[i]);
    for (int i = 0; i < 2; ++i) b[t + (i != 0 ? 4 : 0)][g] = tf32_of(mine.b[i]);
  }
  float sums[16][8] = {};
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 8; ++k)
      for (int column = 0; column < 8; ++column) sums[row][column] += a[row][k] * b[k][column];
  add_to_lanes(arguments, sums);
}

// ---- ldmatrix ----

struct MatrixLoad {
  uint32_t* r;
  int matrices;
  bool transposed;
  const char* row;
  std::source_location place;
  const void* code;
};

void load_matrices(void* const* arguments, unsigned lanes) {
  need_all("ldmatrix", lanes);
  const MatrixLoad& first = of<MatrixLoad>(arguments[0]);
  for (int m = 0; m < first.matrices; ++m) {
    uint16_t matrix[8][8];
    for (int i = 0; i < 8; ++i) {
      const MatrixLoad& owner = of<MatrixLoad>(arguments[8 * m + i]);
      if (reinterpret_cast<uintptr_t>(owner.row) % 16 != 0)
        stop("ldmatrix at {}:{}: the address {} of a row is not aligned to 16 bytes",
             owner.place.file_name(), owner.place.line(), static_cast<const void*>(owner.row));
      note_access(owner.row, 16, Access::read, owner.code);
      std::memcpy(matrix[i], owner.row, 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4 * 2;
      const uint32_t low = first.transposed ? matrix[t][g] : matrix[g][t];
      const uint32_t high = first.transposed ? matrix[t + 1][g] : matrix[g][t + 1];
      of<MatrixLoad>(arguments[lane]).r[m] = low | high << 16;
    }
  }
}

// ---- nvcuda::wmma ----

template <typename T>
struct Move {
  T* share;
  T* memory;
  unsigned stride;
  bool by_rows, store;
  std::source_location place;
  const void* code;
};

template <typename T>
void move_tile(void* const* arguments, unsigned lanes) {
  need_all("a tile of wmma", lanes);
  const Move<T>& move = of<Move<T>>(arguments[0]);
  for (const int lane : LanesOf(lanes))
    if (of<Move<T>>(arguments[lane]).memory != move.memory)
      stop("a tile of wmma at {}:{}: the lanes do not name the same memory", move.place.file_name(),
           move.place.line());
  for (int i = 0; i < kTile; ++i) {
    T* line = move.memory + static_cast<size_t>(i) * move.stride;
    note_access(line, kTile * sizeof(T), move.store ? Access::write : Access::read, move.code);
    for (int j = 0; j < kTile; ++j) {
      const int element = move.by_rows ? i * kTile + j : j * kTile + i;
      T& held = of<Move<T>>(arguments[element / kTileShare]).share[element % kTileShare];
      if (move.store)
        line[j] = held;
      else
        held = line[j];
    }
  }
}

template <typename T>
void move_together(Move<T> move, const char* what) {
  if (reinterpret_cast<uintptr_t>(move.memory) % 32 != 0 || move.stride * sizeof(T) % 16 != 0)
    stop(
        "{} at {}:{}: the address {} must be aligned to 32 bytes, and {} bytes from line to line "
        "to 16",
        what, move.place.file_name(), move.place.line(), static_cast<const void*>(move.memory),
        move.stride * sizeof(T));
  block.meet_in_warp(kAllLanes, move_tile<T>, &move, what, move.place);
}

struct TileProduct {
  float* d;
  const __nv_bfloat16 *a, *b;
  const float* c;
};

void multiply_shares(void* const* arguments, unsigned lanes) {
  need_all("wmma::mma_sync", lanes);
  float a[kTile * kTile], b[kTile * kTile], sums[kTile * kTile];
  for (int i = 0; i < kTile * kTile; ++i) {
    const TileProduct& owner = of<TileProduct>(arguments[i / kTileShare]);
    a[i] = __bfloat162float(owner.a[i % kTileShare]);
    b[i] = __bfloat162float(owner.b[i % kTileShare]);
    sums[i] = owner.c[i % kTileShare];
  }
  for (int row = 0; row < kTile; ++row)
    for (int k = 0; k < kTile; ++k)
      for (int column = 0; column < kTile; ++column)
        sums[row * kTile + column] += a[row * kTile + k] * b[k * kTile + column];
  for (int i = 0; i < kTile * kTile; ++i)
    of<TileProduct>(arguments[i / kTileShare]).d[i % kTileShare] = sums[i];
}

}  // namespace

void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, std::source_location place) {
  const OutsideKernel outside;
  Product mine{d, a, b};
  block.meet_in_warp(kAllLanes, multiply, &mine, "mma.sync.m16n8k16", place);
}

void mma_m16n8k8(float* d, const uint32_t* a, const uint32_t* b, std::source_location place) {
  const OutsideKernel outside;
  Product mine{d, a, b};
  block.meet_in_warp(kAllLanes, multiply_words, &mine, "mma.sync.m16n8k8", place);
}

uint32_t to_tf32(float x) {
  if (x != x) return 0x7fffffffu;
  return (std::bit_cast<uint32_t>(x) + 0x1000u) & 0xffffe000u;
}

void ldmatrix(uint32_t* r, int matrices, bool transposed, const void* row,
              std::source_location place) {
  const OutsideKernel outside;
  MatrixLoad mine{
      r, matrices, transposed, static_cast<const char*>(row), place, __builtin_return_address(0)};
  block.meet_in_warp(kAllLanes, load_matrices, &mine, "ldmatrix", place);
}

template <typename T>
void load_tile(T* share, const T* from, unsigned stride, bool by_rows, std::source_location place) {
  const OutsideKernel outside;
  move_together<T>(
      {share, const_cast<T*>(from), stride, by_rows, false, place, __builtin_return_address(0)},
      "wmma::load_matrix_sync");
}

template <typename T>
void store_tile(T* to, const T* share, unsigned stride, bool by_rows, std::source_location place) {
  const OutsideKernel outside;
  move_together<T>(
      {const_cast<T*>(share), to, stride, by_rows, true, place, __builtin_return_address(0)},
      "wmma::store_matrix_sync");
}

template void load_tile(float*, const float*, unsigned, bool, std::source_location);
template void load_tile(__nv_bfloat16*, const __nv_bfloat16*, unsigned, bool, std::source_location);
template void store_tile(float*, const float*, unsigned, bool, std::source_location);

void multiply_tiles(float* d, const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c,
                    std::source_location place) {
  const OutsideKernel outside;
  TileProduct mine{d, a, b, c};
  block.meet_in_warp(kAllLanes, multiply_shares, &mine, "wmma::mma_sync", place);
}

}  // namespace linea::emulator
