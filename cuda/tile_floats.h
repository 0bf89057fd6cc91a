// Tiles of 64 x 64 whose factors are floats or doubles. Its threads have the sums that they have of
// a tile of bf16 (cuda/tile_cores.h), and make them one by one, or, of floats, by tensor cores as
// FloatProducts says.
#pragma once

#include "cuda/tile_cores.h"
#include "tensor/context.h"
#include "tensor/element.h"

namespace linea::cuda {

// How many terms are brought to shared memory at once: no kernel needs more than 48 KiB of it.
template <typename A>
inline constexpr int kDeep = sizeof(A) == 8 ? 8 : 16;

// Pieces of the two factors, by term. Eight numbers more a row let what the lanes of a warp read at
// once, of four terms eight neighbors, lie in banks of their own (what they write of sixteen terms
// lies in banks of four).
template <typename A>
struct PlainPanels {
  static constexpr int kRow = kTile + 8;
  alignas(16) A left[kDeep<A> * kRow], right[kDeep<A> * kRow];
  FloatProducts products;
};

// panel[term][place] = at(place, term) of the terms `first` and on, 0 from `terms` on.
template <Along kAlong, typename A, typename At>
__device__ void load_panel(A* panel, int64_t first, int64_t terms, const At& at) {
#pragma unroll
  for (int e = 0; e < kDeep<A> * kTile; e += kBlockThreads) {
    const int index = e + static_cast<int>(threadIdx.x);
    const int term = kAlong == Along::terms ? index % kDeep<A> : index / kTile;
    const int place = kAlong == Along::terms ? index / kDeep<A> : index % kTile;
    panel[term * PlainPanels<A>::kRow + place] =
        first + term < terms ? at(place, first + term) : A(0);
  }
}

template <typename A>
__device__ void multiply_one_by_one(A (&sums)[16], const PlainPanels<A>& panels) {
  struct alignas(2 * sizeof(A)) Two {
    A x[2];
  };
  const int row = core_row(), col = core_col();
#pragma unroll 2
  for (int term = 0; term < kDeep<A>; ++term) {
    const A *left = panels.left + term * PlainPanels<A>::kRow + row, x[2] = {left[0], left[8]};
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const Two z = *reinterpret_cast<const Two*>(panels.right + term * PlainPanels<A>::kRow + col +
                                                  part * 8);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[part * 4 + e] += x[e / 2] * z.x[e % 2];
    }
  }
}

// Numbers of a fragment as TF32, and, where asked for, what that leaves of each as another.
template <int kCount>
struct TensorFloats {
  uint32_t high[kCount], low[kCount];
  __device__ void set(int i, float x, bool split) {
    high[i] = to_tf32(x);
    low[i] = split ? to_tf32(x - __uint_as_float(high[i])) : 0;
  }
};

// `split`: with the products of what TF32 leaves of one factor, too. Tensor cores cut off what does
// not fit a sum; so those of eight terms are added to the others outside of them, where sums are
// rounded (Ootomo and Yokota 2022).
__device__ inline void multiply_by_cores(float (&sums)[16], const PlainPanels<float>& panels,
                                         bool split) {
  constexpr int kRow = PlainPanels<float>::kRow;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = warp / 2 * 16 + lane / 4, col = warp % 2 * 32 + lane / 4;
#pragma unroll 1
  for (int term = lane % 4; term < kDeep<float>; term += 8) {  // of all lanes alike, two turns
    TensorFloats<4> a;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a.set(i, panels.left[(term + (i & 2) * 2) * kRow + row + (i & 1) * 8], split);
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      TensorFloats<2> b;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        b.set(i, panels.right[(term + i * 4) * kRow + col + part * 8], split);
      float d[4] = {};
      if (split) {
        mma_m16n8k8(d, a.low, b.high);
        mma_m16n8k8(d, a.high, b.low);
      }
      mma_m16n8k8(d, a.high, b.high);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[part * 4 + e] += d[e];
    }
  }
}

// sums += left right^T over the terms of the panels.
__device__ inline void multiply_panels(double (&sums)[16], const PlainPanels<double>& panels) {
  multiply_one_by_one(sums, panels);
}
__device__ inline void multiply_panels(float (&sums)[16], const PlainPanels<float>& panels) {
  const FloatProducts products = panels.products;
  if (products == FloatProducts::exact) return multiply_one_by_one(sums, panels);
  multiply_by_cores(sums, panels, products == FloatProducts::split);
}

// The shape of a call, for its kernels.
template <typename Shape>
Shape as_multiplied(const Context& ctx, Shape shape) {
  shape.products = ctx.products;
  return shape;
}
// To be called once by a kernel, before the first product.
template <typename A>
__device__ void multiply_as(FloatProducts products, PlainPanels<A>& panels) {
  if (threadIdx.x == 0) panels.products = products;
}
__device__ inline void multiply_as(FloatProducts, CorePanels&) {}

}  // namespace linea::cuda
