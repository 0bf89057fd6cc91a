// Plain sums of bf16 rows by walks: a block takes one (batch, head) and goes through its chunks of
// 64 positions one after another, with the state S [D,D] and z [D] in the registers of its warps.
// For features and values of D = 32, 64 or 128 whose rows allow copies of 16 bytes; cuda/chunk.h
// has all others. With q and k after their feature phi, and n = dy / d, for a chunk:
//
//   forward   A = tril(q k^T)        y = (q S + A v) / d    d = q z + A 1    S += k^T v, z += k^T 1
//   query     G = tril(n v^T + e)    dq = (n S^T + e z + G k) phi'           S += k^T v, z += k^T 1
//   key       backwards: G, A as above
//             dk = (v S^T + z + G^T q) phi'    dv = k S + A^T n              S += q^T n, z += q^T e
//
// Without queries a walk only sums, and without keys (for `key`: queries) it only reads. Panels of
// the next chunk are copied while this one is computed. S is rounded to bf16 where it is
// a factor. Where there are few (batch, head), their chunks are cut into stretches: one walk sums
// each stretch, a scan adds these sums in order, and the stretches are walked from what precedes
// them. Everything depends on the sizes alone, so that equal inputs give equal bits.
#pragma once

#include <algorithm>

#include "cuda/chunk_sweep.h"
#include "cuda/panel.h"

namespace linea::cuda {

// ---- how a call is cut ----

struct Stretches {
  int chunks, count, each;  // chunks of the segment; stretches; chunks of a stretch
  bool queries, keys;       // whether there are any

  dim3 grid(const ChunkShape& shape) const { return grid_of(shape.batch_heads * count); }
};

inline Stretches stretches_of(const Context& ctx, const ChunkShape& shape,
                              const ChunkInput<BFloat16>& in) {
  const auto rounded_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t chunks = chunk_count(shape);
  const int64_t wanted =
      std::clamp<int64_t>(rounded_up(ctx.sizes.blocks / 2, shape.batch_heads), 1, chunks);
  int64_t each = rounded_up(chunks, wanted);
  // Summing a stretch takes about half of the time of walking it.
  if (chunks - each - each / 2 <= ctx.sizes.cut) each = chunks;
  return {static_cast<int>(chunks), static_cast<int>(rounded_up(chunks, each)),
          static_cast<int>(each), in.q.data != nullptr, in.k.data != nullptr};
}

// The chunks first .. end - 1 of one (batch, head).
struct Stretch {
  int bh, first, end;
  int length, with_query, with_key;  // rows of the segment; those of them that have queries, keys

  __device__ static int within(int count, int chunk) {
    return min(max(count - chunk * kTile, 0), kTile);
  }
  __device__ int rows(int chunk) const { return within(length, chunk); }
  __device__ int queries(int chunk) const { return within(with_query, chunk); }
  __device__ int keys(int chunk) const { return within(with_key, chunk); }
};
// Writes the block's stretch to shared memory, to spare registers. Readable after a barrier, and
// before it by the first thread.
__device__ inline const Stretch& publish_stretch(const ChunkShape& shape, const Stretches& cut,
                                                 Stretch& to) {
  if (threadIdx.x > 0) return to;
  const int bh = static_cast<int>(blockIdx.x) / cut.count,
            first = static_cast<int>(blockIdx.x) % cut.count * cut.each;
  const int length = static_cast<int>(shape.length);
  const int64_t keys = valid_keys(shape.valid, bh, shape.first + shape.length) - shape.first;
  const Stretch own{bh,
                    first,
                    min(first + cut.each, cut.chunks),
                    length,
                    cut.queries ? length : 0,
                    cut.keys ? static_cast<int>(keys) : 0};
  return to = own;
}

// Pairs of rows and a pointer, which becomes that of the first row of the stretch's (batch, head), as
// in publish_stretch().
template <typename T, typename... More>
__device__ void publish_rows(const Stretch& stretch, const HeadRows<T>& rows, T*& to,
                             More&&... more) {
  if (threadIdx.x > 0) return;
  T* const first = rows.at(stretch.bh, 0);
  to = first;
  if constexpr (sizeof...(more) > 0) publish_rows(stretch, more...);
}

// The states that stretches start from and end with, S [D,D] and z [D]. Null: 0, and not needed.
struct WalkStates {
  const float *state = nullptr, *key_sum = nullptr;
  float *final_state = nullptr, *final_key_sum = nullptr;
  int sharing = 1;  // consecutive stretches that start from the same
};

// ---- features ----

template <typename F>
__device__ __forceinline__ float walk_feature(float x) {
  if constexpr (std::is_same_v<F, FeatureElu<float>>) {
    constexpr float kLog2E = 1.44269504f;
    const float below = exp2_approx(x * kLog2E);
    return x < 0 ? below : x + 1;
  } else {
    return F::value(x);
  }
}

// Calls body(F{}) with the struct F of `feature`.
template <typename Body>
__device__ __forceinline__ void with_feature_of_walk(KernelFeature feature, const Body& body) {
  if (feature == KernelFeature::elu) return body(FeatureElu<float>{});
  if (feature == KernelFeature::relu) return body(FeatureRelu<float>{});
  body(FeatureGiven<float>{});
}

// Makes features of the first `count` rows of a panel. The others stay 0, whatever phi(0) is.
template <int kWidth>
__device__ __forceinline__ void make_features(Panel<kTile, kWidth>& panel, KernelFeature feature,
                                              int count) {
  if (feature == KernelFeature::given) return;
  with_feature_of_walk(feature, [&](auto f) {
    panel.transform(count, [](float x, int) { return walk_feature<decltype(f)>(x); });
  });
}

// x / d of the first `count` rows, 0 where d is.
template <int kWidth>
__device__ __forceinline__ void divide_rows(Panel<kTile, kWidth>& panel, const float* d,
                                            int count) {
  panel.transform(count, [&](float x, int i) { return x * reciprocal_or_zero(d[i]); });
}

// ---- the state ----

// Each warp has 16 features by kColumns values of S; the first of those with the same features has
// their z too, as two sums, of the upper and the lower bits of the weights.
template <int kD>
struct WalkState {
  static constexpr int kBands = kD / 16;
  static constexpr int kParts = std::min(kBlockWarps / kBands, kBands);
  static constexpr int kColumns = kD / kParts;
  static_assert(kBands * kParts <= kBlockWarps);
  BandSums<kColumns> sums = {};
  float key_sums[4] = {};

  __device__ static int row() { return own_warp() % kBands * 16; }
  __device__ static int col() { return own_warp() / kBands * kColumns; }
  __device__ static bool owns() {
    return kBands * kParts == kBlockWarps || own_warp() < kBands * kParts;
  }
  __device__ static bool owns_key_sums() { return owns() && col() == 0; }

  // Calls body(two sums, row, column), and of_key(z, row).
  template <typename Body, typename OfKey>
  __device__ __forceinline__ void each(const Body& body, const OfKey& of_key) {
    if (!owns()) return;
    const int i = row() + own_lane() / 4, j = col() + own_lane() % 4 * 2;
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower)
        body(&sums[0][t][2 * lower], i + lower * 8, j + t * 8);
    if (owns_key_sums() && own_lane() % 4 == 0)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) of_key(&key_sums[2 * lower], i + lower * 8);
  }

  __device__ __forceinline__ void load(const WalkStates& from) {
    if (from.state == nullptr) return;
    const int64_t index = static_cast<int>(blockIdx.x) / from.sharing;
    const float* const state = from.state + index * kD * kD;
    const float* const key_sum = from.key_sum + index * kD;
    each(
        [&](float* two, int f, int m) {
          const float2 given = *reinterpret_cast<const float2*>(state + f * kD + m);
          two[0] = given.x, two[1] = given.y;
        },
        [&](float* two, int f) { two[0] = key_sum[f]; });
  }
  __device__ __forceinline__ void store(const WalkStates& to) {
    if (to.final_state == nullptr) return;
    float* const state = to.final_state + int64_t{blockIdx.x} * kD * kD;
    float* const key_sum = to.final_key_sum + int64_t{blockIdx.x} * kD;
    each(
        [&](const float* two, int f, int m) {
          *reinterpret_cast<float2*>(state + f * kD + m) = {two[0], two[1]};
        },
        [&](const float* two, int f) { key_sum[f] = two[0] + two[1]; });
  }
  // Writes S, rounded, and z where all warps read them.
  __device__ __forceinline__ void publish(Panel<kD, kD>& state, float (&key_sum)[kD]) {
    each([&](const float* two, int f, int m) { state.set_pair(f, m, two[0], two[1]); },
         [&](const float* two, int f) { key_sum[f] = two[0] + two[1]; });
  }

  // S += rows^T values, z += rows^T weights; weights null: 1. They are a second right factor, whose
  // first column is weight(i) in bf16, and whose second is the rest, or 0.
  __device__ __forceinline__ void add(const Panel<kTile, kD>& rows, const Panel<kTile, kD>& values,
                                      const float* weights = nullptr) {
    if (!owns()) return;
    product<kTile, Along::tile, Along::tile>(sums, rows, row(), values, col());
    if (!owns_key_sums()) return;
#pragma unroll
    for (int term = 0; term < kTile; term += 16) {
      uint32_t a[4];
      rows.template left<Along::tile>(a, row(), term);
      uint32_t b[2];
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int i = term + lower * 8 + own_lane() % 4 * 2;
        const uint32_t ones = to_bf16_pair(1, 1);
        if (weights == nullptr) {
          b[lower] = own_lane() < 4 ? ones : 0;
        } else {
          const float x = weights[i], y = weights[i + 1];
          const uint32_t upper = to_bf16_pair(x, y);
          const uint32_t rest = to_bf16_pair(x - lower_bf16(upper), y - upper_bf16(upper));
          b[lower] = own_lane() < 4 ? upper : own_lane() < 8 ? rest : 0;
        }
      }
      mma_m16n8k16(key_sums, a, b);
    }
  }
};

// ---- rows of products ----

// The 16 rows of a chunk and the half of kWidth columns that a warp computes.
template <int kWidth>
struct Band {
  static constexpr int kColumns = kWidth / 2;
  __device__ static int row() { return own_warp() % 4 * 16; }
  __device__ static int col() { return own_warp() / 4 * kColumns; }
};

// Blocks of a multiprocessor, by their registers and shared memory.
template <int kD>
inline constexpr int kWalksAtOnce = kD > 64 ? 1 : 2;

// ---- launches ----

template <typename... Rows>
bool can_walk(const ChunkShape& shape, const ChunkInput<BFloat16>& in,
              const ChunkState<float>& states, const Rows&... others) {
  return shape.kind == FeatureKind::values && states.scale == nullptr && shape.length > 0 &&
         shape.features == shape.values && is_width_of_panels(shape.features) &&
         allows_wide_copies(in.q) && allows_wide_copies(in.k) && allows_wide_copies(in.v) &&
         (allows_wide_copies(others) && ...);
}

// The rows that a walk sums: keys with values, or queries with dy, d and e.
struct WalkTerms {
  HeadRows<const BFloat16> rows, values;
  Strided<const float> denominator{}, weight{};  // of queries
  __host__ __device__ bool of_queries() const { return denominator.data != nullptr; }
};

// The states that the stretches of a call start from, while it lives. `running`, the state before
// them, becomes that after them, unless that is not needed: by the walk itself where there is one
// stretch and it `reads`.
class StretchStates {
 public:
  StretchStates(Context& ctx, const ChunkShape& shape, const Stretches& cut, const WalkTerms& terms,
                const ChunkState<float>& running, bool reads);
  WalkStates view() const { return view_; }

 private:
  Workspace<float> sums_;
  WalkStates view_{};
};

// Rows in the place of absent ones, none of which are read.
inline HeadRows<const BFloat16> rows_or(const HeadRows<const BFloat16>& rows,
                                        const HeadRows<const BFloat16>& others) {
  return rows.data != nullptr ? rows : others;
}

// Each returns whether it did the work: it does not for shapes and rows that do not allow walks.
bool walk_forward(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
                  const ChunkState<float>& states, const HeadRows<BFloat16>& y,
                  const ChunkRows<float>& saved);
bool walk_query(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
                const HeadRows<const BFloat16>& y, const HeadRows<const BFloat16>& dy,
                const ChunkRows<float>& saved, const ChunkState<float>& states,
                const HeadRows<BFloat16>& dq, const Strided<float>& ddenominator);
bool walk_key(Context& ctx, const ChunkShape& shape, const ChunkInput<BFloat16>& in,
              const HeadRows<const BFloat16>& dy, const ChunkRows<float>& saved,
              const Strided<const float>& ddenominator, const ChunkState<float>& grads,
              const HeadRows<BFloat16>& dk, const HeadRows<BFloat16>& dv);

}  // namespace linea::cuda
