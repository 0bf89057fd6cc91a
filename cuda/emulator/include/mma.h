// Replaces the toolkit's mma.h: nvcuda::wmma for 16 x 16 x 16 tiles of bf16 with f32 accumulators.
// A lane holds other elements than on a GPU, and fewer of a and b: only apply the same operation to
// every element of x[].
#pragma once

#include <source_location>

#include "cuda/emulator/device/matrix.h"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment;  // other shapes and types than the following are not emulated

template <typename Use, typename Layout>
struct fragment<Use, 16, 16, 16, __nv_bfloat16, Layout> {
  static constexpr int num_elements = linea::emulator::kTileElementsPerLane;
  __nv_bfloat16 x[num_elements];
};

template <>
struct fragment<accumulator, 16, 16, 16, float, void> {
  static constexpr int num_elements = linea::emulator::kTileElementsPerLane;
  float x[num_elements];
};

template <typename Use, typename Layout>
using Operand = fragment<Use, 16, 16, 16, __nv_bfloat16, Layout>;
using Accumulator = fragment<accumulator, 16, 16, 16, float>;

inline void fill_fragment(Accumulator& fragment, float value) {
  for (float& element : fragment.x) element = value;
}

template <typename Use, typename Layout>
void fill_fragment(Operand<Use, Layout>& fragment, __nv_bfloat16 value) {
  for (__nv_bfloat16& element : fragment.x) element = value;
}

template <typename Use, typename Layout>
void load_matrix_sync(Operand<Use, Layout>& fragment, const __nv_bfloat16* from, unsigned stride,
                      std::source_location location = std::source_location::current()) {
  linea::emulator::load_tile(fragment.x, from, stride, std::is_same_v<Layout, row_major>, location);
}

inline void load_matrix_sync(Accumulator& fragment, const float* from, unsigned stride,
                             layout_t layout,
                             std::source_location location = std::source_location::current()) {
  linea::emulator::load_tile(fragment.x, from, stride, layout == mem_row_major, location);
}

inline void store_matrix_sync(float* to, const Accumulator& fragment, unsigned stride,
                              layout_t layout,
                              std::source_location location = std::source_location::current()) {
  linea::emulator::store_tile(to, fragment.x, stride, layout == mem_row_major, location);
}

template <typename LayoutA, typename LayoutB>
void mma_sync(Accumulator& d, const Operand<matrix_a, LayoutA>& a,
              const Operand<matrix_b, LayoutB>& b, const Accumulator& c,
              std::source_location location = std::source_location::current()) {
  linea::emulator::multiply_tiles(d.x, a.x, b.x, c.x, location);
}

}  // namespace nvcuda::wmma
