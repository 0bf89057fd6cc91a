// 64 x 64 tiles with float or double factors. Threads own the same sums as with bf16
// (cuda/tile_cores.h), and compute them one by one or, for floats, by tensor cores according to
// FloatProducts.
#pragma once

#include "cuda/tile_cores.h"
#include "tensor/context.h"
#include "tensor/element.h"

namespace linea::cuda {

// The number of terms in shared memory at a time; no kernel needs more than 48 KiB.
template <typename A>
inline constexpr int kDeep = sizeof(A) == 8 ? 8 : 16;

// Panels of the two factors, by term. Rows are padded by eight elements so that the lanes of a warp
// read eight neighbors of each of four terms without bank conflicts (writes of sixteen terms have
// 4-way conflicts).
template <typename A>
struct PlainPanels {
  static constexpr int kRow = kTile + 8;
  alignas(16) A left[kDeep<A> * kRow], right[kDeep<A> * kRow];
  FloatProducts products;
};

// panel[term][vector] = at(vector, term) for the terms from `first` on; 0 from `terms` on.
template <Along kAlong, typename A, typename At>
__device__ void load_panel(A* panel, int64_t first, int64_t terms, const At& at) {
#pragma unroll
  for (int e = 0; e < kDeep<A> * kTile; e += kBlockThreads) {
    const int index = e + static_cast<int>(threadIdx.x);
    const int term = kAlong == Along::terms ? index % kDeep<A> : index / kTile;
    const int vector = kAlong == Along::terms ? index / kDeep<A> : index % kTile;
    panel[term * PlainPanels<A>::kRow + vector] =
        first + term < terms ? at(vector, first + term) : A(0);
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

// The elements of a fragment as TF32 and, if split, their rounding errors as a second TF32.
template <int kCount>
struct TensorFloats {
  uint32_t high[kCount], low[kCount];
  __device__ void set(int i, float x, bool split) {
    high[i] = to_tf32(x);
    low[i] = split ? to_tf32(x - __uint_as_float(high[i])) : 0;
  }
};

// `split`: adds the products with the rounding errors of one factor. Tensor cores truncate sums, so
// the sums of eight terms are accumulated outside of them, with rounding (Ootomo and Yokota 2022).
__device__ inline void multiply_by_cores(float (&sums)[16], const PlainPanels<float>& panels,
                                         bool split) {
  constexpr int kRow = PlainPanels<float>::kRow;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = warp / 2 * 16 + lane / 4, col = warp % 2 * 32 + lane / 4;
#pragma unroll 1
  // two iterations, the same in all lanes
  for (int term = lane % 4; term < kDeep<float>; term += 8) {
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

// The shape of a call with its FloatProducts, for its kernels.
template <typename Shape>
Shape as_multiplied(const Context& ctx, Shape shape) {
  shape.products = ctx.products;
  return shape;
}
// A kernel calls it once, before the first product.
template <typename A>
__device__ void multiply_as(FloatProducts products, PlainPanels<A>& panels) {
  if (threadIdx.x == 0) panels.products = products;
}
__device__ inline void multiply_as(FloatProducts, CorePanels&) {}

}  // namespace linea::cuda
