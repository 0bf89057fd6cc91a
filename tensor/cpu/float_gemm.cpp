// Products of float by the scheme of tensor/cpu/packed/gemm.h. A packed block of A is rows, one of B
// 64 columns; a word is a float. Each element is summed in order, in blocks of kFloatBlock terms.
#include <cstring>

#include "tensor/cpu/packed/gemm.h"
#include "tensor/cpu/small_gemm.h"

namespace linea::cpu {
namespace {

constexpr int64_t kFloatBlock = 512;

// y [rows,width] = x [rows,cols]; ahead: the processor foresees no steps as long as `lead`.
template <int64_t width>
void copy_rows(const float* x, int64_t lead, int64_t rows, int64_t cols, float* y) {
  constexpr int64_t kAhead = 8, kLine = 16;
  for (int64_t i = 0; i < rows; ++i, x += lead, y += width) {
    for (int64_t j = 0; j < cols; j += kLine) __builtin_prefetch(x + kAhead * lead + j);
    if (cols == width) {
      std::memcpy(y, x, width * sizeof(float));
    } else {
      std::memcpy(y, x, static_cast<size_t>(cols) * sizeof(float));
    }
  }
}

// A: [count,terms], or [terms,96] where the source is not along. B: [terms,64] for each 64 columns.
// Terms are padded with zeros to 16s.
void pack(const PackSource& from, int64_t count, int64_t inner, bool turned, uint32_t* to) {
  auto* y = reinterpret_cast<float*>(to);
  const int64_t depth = (inner + kPairs - 1) / kPairs * kPairs;
  if (!turned && from.along) {
    for (int64_t i = 0; i < count; ++i, y += depth) {
      std::memcpy(y, from.data + i * from.lead, static_cast<size_t>(inner) * 4);
      std::fill(y + inner, y + depth, 0.0f);
    }
    return;
  }
  const int64_t width = turned ? kStripColumns : kStripRows;
  for (int64_t first = 0; first < count; first += width, y += depth * width) {
    const int64_t cols = std::min(width, count - first);
    if (from.along) {
      transpose(cols, inner, from.data + first * from.lead, from.lead, y, width);
    } else if (turned) {
      copy_rows<kStripColumns>(from.data + first, from.lead, inner, cols, y);
    } else {
      copy_rows<kStripRows>(from.data + first, from.lead, inner, cols, y);
    }
    std::fill(y + inner * width, y + depth * width, 0.0f);
  }
}

void multiply(const uint32_t* a, bool along, const uint32_t* b, int64_t blocks, int64_t rows,
              int64_t cols, float* c, int64_t ldc, bool add) {
  const int64_t depth = blocks * kPairs;
  const auto* data = reinterpret_cast<const float*>(a);
  const Operand<float> rows_of_a = along ? plain(data, depth) : transposed(data, kStripRows);
  for (int64_t col = 0; col < cols; col += kStripColumns)
    tile_gemm(rows, std::min(kStripColumns, cols - col), depth, rows_of_a,
              reinterpret_cast<const float*>(b) + col * depth, kStripColumns, c + col, ldc, add);
}

}  // namespace

const PackedKernel* float_kernel() {
#if defined(__x86_64__) && !defined(__FMA__)
  constexpr bool kPays = false;
#else
  constexpr bool kPays = true;
#endif
  static constexpr PackedKernel kernel = {.isa = "float",
                                          .fast = true,
                                          .terms = kPairs,
                                          .block = kFloatBlock,
                                          .pack = pack,
                                          .multiply = multiply};
  return kPays ? &kernel : nullptr;
}

}  // namespace linea::cpu
