// bf16 products by AMX: 32 x 32 sums in four tiles. Compiled for AMX-BF16.
#include "tensor/cpu/packed/gemm.h"

#ifdef __AMX_BF16__
#include "tensor/cpu/packed/pack_avx512.h"

namespace linea::cpu {
namespace {

// The operand of ldtilecfg (palette 1): eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  static constexpr TileConfig config;
  _tile_loadconfig(&config);
}
void end() { _tile_release(); }

constexpr int64_t kTile = 2 * kPairs;  // rows and columns of the sums in four tiles

// Sums from a buffer to C.
void put(const float* sums, const PackedProduct& of) {
  for (int64_t i = 0; i < of.rows && i < kTile; ++i)
    for (int64_t j = 0; j < of.cols && j < kTile; j += kPairs)
      store(of.c + i * of.ldc + j, of.cols - j, _mm512_load_ps(sums + i * kTile + j), of.add);
}

// The first 32 x 32 sums. Tiles 0 to 3: C by rows; 4 and 5: A; 6 and 7: B.
template <bool kTwoRows, bool kTwoCols>
void tile(const PackedProduct& of) {
  const int64_t group = of.blocks * kBlockSize;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const uint32_t *a = of.a, *b = of.b;
  for (int64_t block = 0; block < of.blocks; ++block, a += kBlockSize, b += kBlockSize) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoCols) {
      _tile_loadd(7, b + group, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTwoRows) {
      _tile_loadd(5, a + group, 64);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kTwoCols) _tile_dpbf16ps(3, 5, 7);
    }
  }
  const bool direct =
      !of.add && of.rows >= (kTwoRows ? kTile : kPairs) && of.cols >= (kTwoCols ? kTile : kPairs);
  alignas(64) float sums[kTile * kTile];
  float* const to = direct ? of.c : sums;
  const int64_t row = direct ? of.ldc : kTile, bytes = row * static_cast<int64_t>(sizeof(float));
  _tile_stored(0, to, bytes);
  if constexpr (kTwoCols) _tile_stored(1, to + kPairs, bytes);
  if constexpr (kTwoRows) _tile_stored(2, to + kPairs * row, bytes);
  if constexpr (kTwoRows && kTwoCols) _tile_stored(3, to + kPairs * row + kPairs, bytes);
  if (!direct) put(sums, of);
}

void multiply(const PackedProduct& of) {
  constexpr decltype(&tile<true, true>) tiles[] = {tile<false, false>, tile<false, true>,
                                                   tile<true, false>, tile<true, true>};
  const int64_t group = of.blocks * kBlockSize;
  for (int64_t row = 0; row < of.rows; row += kTile)
    for (int64_t col = 0; col < of.cols; col += kTile) {
      PackedProduct rest = of;
      rest.a += row / kPairs * group;
      rest.b += col / kPairs * group;
      rest.rows -= row;
      rest.cols -= col;
      rest.c += row * of.ldc + col;
      tiles[2 * (rest.rows > kPairs) + (rest.cols > kPairs)](rest);
    }
}

}  // namespace

const PackedKernel* bf16_amx() {
  static constexpr PackedKernel kernel = {.isa = "AMX",
                                          .fast = true,
                                          .pack = pack_avx512,
                                          .multiply = multiply,
                                          .begin = begin,
                                          .end = end};
  return &kernel;
}

}  // namespace linea::cpu
#else
const linea::cpu::PackedKernel* linea::cpu::bf16_amx() { return nullptr; }
#endif
