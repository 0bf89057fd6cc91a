// In place of the toolkit's mma.h: nvcuda::wmma for tiles of 16 x 16 x 16, bf16 with sums in f32. A
// lane's elements are others than a GPU's, and fewer of a and b: use x[] for one thing only, the
// same change to every element.
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
struct fragment;  // shapes and types that are not below are not emulated

template <typename Use, typename Layout>
struct fragment<Use, 16, 16, 16, __nv_bfloat16, Layout> {
  static constexpr int num_elements = linea::emulator::kTileShare;
  __nv_bfloat16 x[num_elements];
};

template <>
struct fragment<accumulator, 16, 16, 16, float, void> {
  static constexpr int num_elements = linea::emulator::kTileShare;
  float x[num_elements];
};

template <typename Use, typename Layout>
using Factor = fragment<Use, 16, 16, 16, __nv_bfloat16, Layout>;
using Sums = fragment<accumulator, 16, 16, 16, float>;

inline void fill_fragment(Sums& fragment, float value) {
  for (float& element : fragment.x) element = value;
}

template <typename Use, typename Layout>
void fill_fragment(Factor<Use, Layout>& fragment, __nv_bfloat16 value) {
  for (__nv_bfloat16& element : fragment.x) element = value;
}

template <typename Use, typename Layout>
void load_matrix_sync(Factor<Use, Layout>& fragment, const __nv_bfloat16* from, unsigned stride,
                      std::source_location place = std::source_location::current()) {
  linea::emulator::load_tile(fragment.x, from, stride, std::is_same_v<Layout, row_major>, place);
}

inline void load_matrix_sync(Sums& fragment, const float* from, unsigned stride, layout_t layout,
                             std::source_location place = std::source_location::current()) {
  linea::emulator::load_tile(fragment.x, from, stride, layout == mem_row_major, place);
}

inline void store_matrix_sync(float* to, const Sums& fragment, unsigned stride, layout_t layout,
                              std::source_location place = std::source_location::current()) {
  linea::emulator::store_tile(to, fragment.x, stride, layout == mem_row_major, place);
}

template <typename LayoutA, typename LayoutB>
void mma_sync(Sums& d, const Factor<matrix_a, LayoutA>& a, const Factor<matrix_b, LayoutB>& b,
              const Sums& c, std::source_location place = std::source_location::current()) {
  linea::emulator::multiply_tiles(d.x, a.x, b.x, c.x, place);
}

}  // namespace nvcuda::wmma
