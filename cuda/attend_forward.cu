// y and log sums of softmax attention on panels. Formulas: cuda/attend.h.
#include "cuda/attend.h"

namespace linea::cuda {
namespace {

inline constexpr int kBands = 2, kRows = kBandRows<kBands>;

template <int kD>
struct ForwardShared {
  Panel<kRows, kD> q;
  struct Stage {
    Panel<kTile, kD> k, v;
  } stage[2];
  KeyBounds<kRows> seen;
  // here to spare registers
  const BFloat16 *k0, *v0;  // the first rows
  int bh, query, rows;
};

// The running softmax of the rows of a warp: the maximum of the scores, and the lane's part of the
// sum of the weights.
struct RunningSoftmax {
  float max[kBands][2], total[kBands][2] = {};

  __device__ RunningSoftmax() {
    for (auto& of_band : max) of_band[0] = of_band[1] = -INFINITY;
  }

  // Makes weights of scores, which are multiplied by `scale`, and adapts the sums to their maximum.
  template <int kTiles>
  __device__ __forceinline__ void add(float (&scores)[kBands][kTile / 8][4],
                                      float (&sums)[kBands][kTiles][4], float scale) {
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
      float top[2];
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        float now = max[band][lower];
#pragma unroll
        for (int t = 0; t < kTile / 8; ++t)
          now = fmaxf(now, fmaxf(scores[band][t][2 * lower], scores[band][t][2 * lower + 1]));
        now = fmaxf(now, __shfl_xor_sync(kWholeWarp, now, 1));
        now = fmaxf(now, __shfl_xor_sync(kWholeWarp, now, 2));
        top[lower] = now == -INFINITY ? 0 : now * scale;
        const float by = exp2_approx(max[band][lower] * scale - top[lower]);
        max[band][lower] = now;
        total[band][lower] *= by;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          sums[band][t][2 * lower] *= by;
          sums[band][t][2 * lower + 1] *= by;
        }
      }
      each_sum(scores[band], [&](float& score, int lower, int, int) {
        score = exp2_approx(score * scale - top[lower]);
        total[band][lower] += score;
      });
    }
  }
  // Sums the parts of the four lanes of a row.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int n = 0; n < 2 * kBands; ++n) {
      float& sum = total[n / 2][n % 2];
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    }
  }
};

template <int kD>
__global__ void __launch_bounds__(kAttendThreads, kD > 32 ? 2 : 3)
    attend_tiles(SoftmaxShape shape, int tiles, HeadRows<const BFloat16> q,
                 HeadRows<const BFloat16> k, HeadRows<const BFloat16> v, HeadRows<BFloat16> y,
                 float* log_sums) {
  SharedMemory memory;
  ForwardShared<kD>& shared = *memory.take<ForwardShared<kD>>(1);
  // Tiles that may see the most keys come first.
  const int block = static_cast<int>(blockIdx.x), bh = block / tiles,
            query = (tiles - 1 - block % tiles) * kRows;
  const int rows = min(static_cast<int>(shape.queries) - query, kRows);
  const int keys = static_cast<int>(valid_keys(shape.valid, bh, shape.keys));
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 * kBands;  // of the warp
  const float scale = static_cast<float>(shape.scale) * kLog2E;
  if (threadIdx.x == 0) {
    shared.k0 = k.at(bh, 0), shared.v0 = v.at(bh, 0);
    shared.bh = bh, shared.query = query, shared.rows = rows;
  }
  shared.seen.find(shape, bh, query, rows, keys);
  __syncthreads();
  const int first = shared.seen.first[0], end = shared.seen.end[rows - 1];
  if (first < end) shared.q.template bring<kAttendThreads>(q.at(bh, query), stride_of(q), rows);

  BandsSums<kBands, kD> sums = {};
  RunningSoftmax softmax;
  in_stages<kTile>(
      shared.stage, first, end,
      [&](auto& to, int key) {
        const int count = min(end - key, kTile);
        to.k.template bring<kAttendThreads>(shared.k0 + int64_t{key} * stride_of(k), stride_of(k),
                                            count);
        to.v.template bring<kAttendThreads>(shared.v0 + int64_t{key} * stride_of(v), stride_of(v),
                                            count);
      },
      [&](const auto& now, int key) {
        constexpr int kLast = 16 * kBands - 1;
        if (!shared.seen.meet(row, row + kLast, key, kTile)) return;
        BandsSums<kBands, kTile> scores = {};
        product_of_bands<kD>(scores, shared.q, row, now.k);
        if (!shared.seen.cover(row, row + kLast, key, kTile))
          shared.seen.each_unseen(scores, row, key, [](float& score) { score = -INFINITY; });
        softmax.add(scores, sums, scale);
        product_of_weights(sums, scores, now.v);
      });
  softmax.finish();
  write_bands(y, shared.bh, shared.query, sums, row, shared.rows, [&](int band, int lower) {
    const float total = softmax.total[band][lower];
    const int lane = static_cast<int>(threadIdx.x) % kWarp,
              i = row + band * 16 + lower * 8 + lane / 4;
    if (i < shared.rows && lane % 4 == 0)
      log_sums[shared.bh * shape.queries + shared.query + i] =
          total == 0 ? 0 : (softmax.max[band][lower] * scale + log2f(total)) * kLn2;
    return reciprocal_or_zero(total);
  });
}

}  // namespace

bool attend_panels(Context& ctx, const SoftmaxShape& shape, const HeadRows<const BFloat16>& q,
                   const HeadRows<const BFloat16>& k, const HeadRows<const BFloat16>& v,
                   const HeadRows<BFloat16>& y, float* log_sums) {
  bool done = false;
  if (!can_attend(shape, q, k, v, y)) return done;
  with_width_of_panels(shape.key_size, [&](auto width) {
    using Shared = ForwardShared<width.value>;
    done = holds<Shared>(ctx);
    const int tiles = static_cast<int>((shape.queries + kRows - 1) / kRows);
    if (done)
      launch_with_panels<attend_tiles<width.value>, Shared, kAttendThreads>(
          ctx, shape.batch_heads * tiles, shape, tiles, q, k, v, y, log_sums);
  });
  return done;
}

}  // namespace linea::cuda
