// Tensor-core operations, run for the whole warp by the last lane that arrives.
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

void require_full_warp(const char* function, unsigned lanes) {
  if (lanes != kAllLanes)
    fatal("{} needs all 32 lanes of a warp; {} are active", function, std::popcount(lanes));
}

// Tensor cores truncate sums instead of rounding them.
float add_truncating(float a, float b) {
  const double exact = static_cast<double>(a) + static_cast<double>(b);
  const auto nearest = static_cast<float>(exact);
  return std::abs(static_cast<double>(nearest)) > std::abs(exact) ? std::nextafter(nearest, 0.0f)
                                                                  : nearest;
}

float unpack_bf16(uint32_t word, bool upper) {
  return std::bit_cast<float>(upper ? word & 0xffff0000u : word << 16);
}

// sums += a b
template <int kRows, int kColumns, int kInner>
void multiply_add(float (&sums)[kRows][kColumns], const float (&a)[kRows][kInner],
                  const float (&b)[kInner][kColumns]) {
  for (int row = 0; row < kRows; ++row)
    for (int k = 0; k < kInner; ++k)
      for (int column = 0; column < kColumns; ++column)
        sums[row][column] += a[row][k] * b[k][column];
}

// ---- mma.sync.m16n8k16, bf16: lane 4 g + t holds rows g, g + 8 of A and D, column g of B ----

struct Product {
  float* d;
  const uint32_t *a, *b;
};

// Adds each lane's four elements of D.
void add_to_lanes(void* const* arguments, const float (&sums)[16][8]) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      float& d = as<Product>(arguments[lane]).d[i];
      d = add_truncating(d, sums[g + ((i & 2) != 0 ? 8 : 0)][t * 2 + (i & 1)]);
    }
  }
}

void multiply_bf16(void* const* arguments, unsigned lanes) {
  require_full_warp("mma.sync", lanes);
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Product& argument = as<Product>(arguments[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 8; ++i)
      a[g + ((i & 2) != 0 ? 8 : 0)][t * 2 + (i & 1) + ((i & 4) != 0 ? 8 : 0)] =
          unpack_bf16(argument.a[i / 2], (i & 1) != 0);
    for (int i = 0; i < 4; ++i)
      b[t * 2 + (i & 1) + ((i & 2) != 0 ? 8 : 0)][g] = unpack_bf16(argument.b[i / 2], (i & 1) != 0);
  }
  float sums[16][8] = {};
  multiply_add(sums, a, b);
  add_to_lanes(arguments, sums);
}

// ---- mma.sync.m16n8k8, TF32: the lower 13 bits of a word are ignored ----

float to_float(uint32_t word) { return std::bit_cast<float>(word & 0xffffe000u); }

void multiply_tf32(void* const* arguments, unsigned lanes) {
  require_full_warp("mma.sync", lanes);
  float a[16][8], b[8][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Product& argument = as<Product>(arguments[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i)
      a[g + ((i & 1) != 0 ? 8 : 0)][t + ((i & 2) != 0 ? 4 : 0)] = to_float(argument.a[i]);
    for (int i = 0; i < 2; ++i) b[t + (i != 0 ? 4 : 0)][g] = to_float(argument.b[i]);
  }
  float sums[16][8] = {};
  multiply_add(sums, a, b);
  add_to_lanes(arguments, sums);
}

// ---- ldmatrix ----

struct MatrixLoad {
  uint32_t* r;
  bool transposed;
  const char* row;
  std::source_location location;
  const void* code;
};

void load_matrices(void* const* arguments, unsigned lanes) {
  require_full_warp("ldmatrix", lanes);
  const MatrixLoad& first = as<MatrixLoad>(arguments[0]);
  for (int m = 0; m < 4; ++m) {
    uint16_t matrix[8][8];
    for (int i = 0; i < 8; ++i) {
      const MatrixLoad& owner = as<MatrixLoad>(arguments[8 * m + i]);
      if (reinterpret_cast<uintptr_t>(owner.row) % 16 != 0)
        fatal("ldmatrix at {}: the address {} of a row is not aligned to 16 bytes",
              to_string(owner.location), static_cast<const void*>(owner.row));
      record_access(owner.row, 16, Access::read, owner.code, 8 * m + i);
      std::memcpy(matrix[i], owner.row, 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4 * 2;
      const uint32_t low = first.transposed ? matrix[t][g] : matrix[g][t];
      const uint32_t high = first.transposed ? matrix[t + 1][g] : matrix[g][t + 1];
      as<MatrixLoad>(arguments[lane]).r[m] = low | high << 16;
    }
  }
}

}  // namespace

void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t* b, std::source_location location) {
  const EmulatorScope scope;
  Product argument{d, a, b};
  block.run_warp_operation(kAllLanes, multiply_bf16, &argument, "mma.sync.m16n8k16", location);
}

void mma_m16n8k8(float* d, const uint32_t* a, const uint32_t* b, std::source_location location) {
  const EmulatorScope scope;
  Product argument{d, a, b};
  block.run_warp_operation(kAllLanes, multiply_tf32, &argument, "mma.sync.m16n8k8", location);
}

uint32_t to_tf32(float x) {
  if (x != x) return 0x7fffffffu;
  return (std::bit_cast<uint32_t>(x) + 0x1000u) & 0xffffe000u;
}

void ldmatrix(uint32_t* r, bool transposed, const void* row, std::source_location location) {
  const EmulatorScope scope;
  MatrixLoad argument{r, transposed, static_cast<const char*>(row), location,
                      __builtin_return_address(0)};
  block.run_warp_operation(kAllLanes, load_matrices, &argument, "ldmatrix", location);
}

}  // namespace linea::emulator
