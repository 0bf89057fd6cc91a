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
  float max[2 * kBands], total[2 * kBands] = {};  // of each octet

  __device__ RunningSoftmax() {
    for (float& of_octet : max) of_octet = -INFINITY;
  }

  // Makes weights of scores, which are multiplied by `scale`, and adapts the sums to their maximum.
  template <int kTiles>
  __device__ __forceinline__ void add(BandSums<kTile, kBands>& scores,
                                      float (&sums)[kBands][kTiles][4], float scale) {
#pragma unroll
    for (int octet = 0; octet < 2 * kBands; ++octet) {
      const int band = octet / 2, e = octet % 2 * 2;
      float now = max[octet];
#pragma unroll
      for (int t = 0; t < kTile / 8; ++t)
        now = fmaxf(now, fmaxf(scores[band][t][e], scores[band][t][e + 1]));
      now = fmaxf(now, __shfl_xor_sync(kWholeWarp, now, 1));
      now = fmaxf(now, __shfl_xor_sync(kWholeWarp, now, 2));
      const float top = now == -INFINITY ? 0 : now * scale;
      const float by = exp2_approx(max[octet] * scale - top);
      max[octet] = now;
      total[octet] *= by;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) sums[band][t][e] *= by, sums[band][t][e + 1] *= by;
#pragma unroll
      for (int n = 0; n < kTile / 4; ++n) {
        float& score = scores[band][n / 2][e + n % 2];
        score = exp2_approx(score * scale - top);
        total[octet] += score;
      }
    }
  }
  // Makes reciprocals of the totals, and writes the log sums of the rows from `row`, the warp's first,
  // that are below `count`.
  __device__ __forceinline__ void finish(float scale, int row, int count, float* log_sums) {
#pragma unroll
    for (int octet = 0; octet < 2 * kBands; ++octet) {
      float& sum = total[octet];
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(kWholeWarp, sum, 2);
      const int i = row + octet * 8 + own_lane() / 4;
      if (i < count && own_lane() % 4 == 0)
        log_sums[i] = sum == 0 ? 0 : (max[octet] * scale + log2f(sum)) * kLn2;
      sum = reciprocal_or_zero(sum);
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
  const int row = own_warp() * 16 * kBands;
  const float scale = static_cast<float>(shape.scale) * kLog2E;
  if (threadIdx.x == 0) {
    shared.k0 = k.at(bh, 0), shared.v0 = v.at(bh, 0);
    shared.bh = bh, shared.query = query, shared.rows = rows;
  }
  shared.seen.find(shape, bh, query, rows, keys);
  __syncthreads();
  const int first = shared.seen.first[0], end = shared.seen.end[rows - 1];
  if (first < end) shared.q.template bring<kAttendThreads>(q.at(bh, 0), stride_of(q), query, rows);

  BandSums<kD, kBands> sums = {};
  RunningSoftmax softmax;
  in_stages<kTile>(
      shared.stage, first, end,
      [&](auto& to, int key) {
        const int count = min(end - key, kTile);
        to.k.template bring<kAttendThreads>(shared.k0, stride_of(k), key, count);
        to.v.template bring<kAttendThreads>(shared.v0, stride_of(v), key, count);
      },
      [&](const auto& now, int key) {
        constexpr int kLast = 16 * kBands - 1;
        if (!shared.seen.meet(row, row + kLast, key, kTile)) return;
        BandSums<kTile, kBands> scores = {};
        product<kD, Along::terms, Along::terms>(scores, shared.q, row, now.k);
        if (!shared.seen.cover(row, row + kLast, key, kTile))
          shared.seen.each_unseen(scores, row, key, [](float& score) { score = -INFINITY; });
        softmax.add(scores, sums, scale);
        product_from_registers<Along::tile>(sums, scores, now.v);
      });
  softmax.finish(scale, row, shared.rows, log_sums + shared.bh * shape.queries + shared.query);
  write_rows(
      y.at(shared.bh, shared.query), stride_of(y), sums, row, shared.rows,
      [&](float& left, float& right, int octet, int, int) {
        left *= softmax.total[octet], right *= softmax.total[octet];
      },
      static_cast<int>(thread_read_anew()) % kWarp);
}

}  // namespace

bool attend_panels(Context& ctx, const SoftmaxShape& shape, const HeadRows<const BFloat16>& q,
                   const HeadRows<const BFloat16>& k, const HeadRows<const BFloat16>& v,
                   const HeadRows<BFloat16>& y, float* log_sums) {
  if (!can_attend(shape, q, k, v, y)) return false;
  return with_width_that_fits<ForwardShared>(ctx, shape.key_size, [&](auto D) {
    const int tiles = static_cast<int>((shape.queries + kRows - 1) / kRows);
    launch_with<attend_tiles<D.value>, ForwardShared<D.value>, kAttendThreads>(
        ctx, grid_of(shape.batch_heads * tiles), shape, tiles, q, k, v, y, log_sums);
  });
}

}  // namespace linea::cuda
