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

// A: [count,terms], or [terms,96] where the columns of the source are contiguous. B: [terms,64] for
// each 64 columns. Terms are padded with zeros to 16s.
void pack(const Operand<float>& from, int64_t count, int64_t inner, bool turned, uint32_t* to) {
  auto* y = reinterpret_cast<float*>(to);
  const int64_t depth = (inner + kPairs - 1) / kPairs * kPairs;
  const bool along = from.column == 1;
  if (!turned && along) {
    for (int64_t i = 0; i < count; ++i, y += depth) {
      std::memcpy(y, from.data + i * from.row, static_cast<size_t>(inner) * 4);
      std::fill(y + inner, y + depth, 0.0f);
    }
    return;
  }
  const int64_t width = turned ? kStripColumns : kStripRows;
  for (int64_t first = 0; first < count; first += width, y += depth * width) {
    const int64_t cols = std::min(width, count - first);
    if (along) {
      transpose(cols, inner, from.data + first * from.row, from.row, y, width);
    } else if (turned) {
      copy_rows<kStripColumns>(from.data + first, from.column, inner, cols, y);
    } else {
      copy_rows<kStripRows>(from.data + first, from.column, inner, cols, y);
    }
    std::fill(y + inner * width, y + depth * width, 0.0f);
  }
}

void multiply(const PackedProduct& of) {
  const int64_t depth = of.blocks * kPairs;
  const auto *a = reinterpret_cast<const float*>(of.a), *b = reinterpret_cast<const float*>(of.b);
  const Operand<float> rows = of.turned_a ? transposed(a, kStripRows) : plain(a, depth);
  for (int64_t col = 0; col < of.cols; col += kStripColumns)
    tile_gemm(of.rows, std::min(kStripColumns, of.cols - col), depth, rows, b + col * depth,
              kStripColumns, of.c + col, of.ldc, of.add);
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
