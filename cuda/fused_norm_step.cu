// q, k and v of one position and the recurrent step that reads them, in one launch: a block
// normalizes rows of x, computes q, k and v of one head for them in shared memory, and runs the
// step. The states it reads are prefetched first, so that they arrive during the products.
#include "cuda/fused_norm_step.h"

#include "cuda/fused_norm_rows.h"
#include "cuda/recurrent.h"

namespace linea::cuda {
namespace {

using Step = RecurrentStep<BFloat16, kWideRows, true>;
constexpr int kBands = 2;
template <int kTiles>
using Product = FusedNormProduct<kBands, kTiles>;

// The inputs of q, k and v: rows of x, and w [3 H D, dim] with the heads of q first, then those of
// k and of v.
struct Source {
  FusedNormRows of;
  const BFloat16 *w, *bias;
  int64_t heads;
};

template <int kTiles>
size_t bytes_of(int64_t terms, int64_t width) {
  const auto qkv = static_cast<size_t>(Product<kTiles>::kRows * 3 * width);
  return Product<kTiles>::bytes(terms) + shared_bytes<BFloat16>(qkv);
}

// Prefetches `count` arrays of n elements into the L2 cache with all threads of the block;
// piece(i): the start of array i.
template <typename Piece>
__device__ void ask_for(int count, int n, const Piece& piece) {
  constexpr int kLine = 128 / sizeof(BFloat16);
  const int lines = (n + kLine - 1) / kLine;
  for (int i = static_cast<int>(threadIdx.x); i < count * lines; i += kBlockThreads)
    prefetch_to_l2(piece(i / lines) + i % lines * kLine);
}

// A block processes head blockIdx.y of its rows; each team steps one row.
template <int kTiles, typename Team>
__global__ void __launch_bounds__(kBlockThreads, kTiles < 12 ? 2 : 1)
    fused_norm_step_kernel(Source source, Step step) {
  constexpr int kRows = Product<kTiles>::kRows, kTeams = kBlockThreads / Team::kThreads;
  const int64_t head = blockIdx.y, first = static_cast<int64_t>(blockIdx.x) * kRows,
                D = step.shape.features;
  const auto bh = [&](int i) { return (first + i) * source.heads + head; };
  const int rows =
      static_cast<int>(source.of.rows - first < kRows ? source.of.rows - first : kRows);
  ask_for(rows, static_cast<int>(D * D), [&](int i) { return step.pending.high + bh(i) * D * D; });
  SharedMemory memory;
  const int d = static_cast<int>(D), width = 3 * d;
  BFloat16* const qkv = memory.take<BFloat16>(static_cast<size_t>(kRows * width));
  const auto row_of_w = [&](int c) { return (c / d * source.heads + head) * D + c % d; };
  Product<kTiles> product;
  product.multiply(
      source.of, first,
      [&](int c) { return c < width ? source.w + row_of_w(c) * source.of.terms : nullptr; },
      memory);
  product.each_pair([&](int row, int column, const float* sums) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int c = column + e;
      if (c >= width) continue;
      qkv[row * width + c] =
          BFloat16(source.bias == nullptr ? sums[e] : sums[e] + source.bias[row_of_w(c)]);
    }
  });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x) / Team::kThreads; i < rows; i += kTeams) {
    const BFloat16* const q = qkv + i * width;
    step.step(Team{}, bh(i), {q, q + D, q + 2 * D});
  }
}

template <int kTiles, typename Team>
bool start(Context& ctx, const Source& source, const Step& step) {
  constexpr int kRows = Product<kTiles>::kRows, kTeams = kBlockThreads / Team::kThreads;
  const size_t bytes = bytes_of<kTiles>(source.of.terms, step.shape.features);
  constexpr size_t kOfStep =
      kTeams * sizeof(StepShared<float, kWideRows, Team::kThreads>) + 2 * kSharedAlignment;
  if (bytes + kOfStep > queue(ctx).shared_bytes) return false;
  const auto kernel = fused_norm_step_kernel<kTiles, Team>;
  static size_t allowed = 0;
  allow_shared_bytes(kernel, bytes, allowed);
  launch(kernel,
         dim3(static_cast<unsigned>((source.of.rows + kRows - 1) / kRows),
              static_cast<unsigned>(source.heads)),
         dim3(kBlockThreads), bytes, stream(ctx), source, step);
  return true;
}

}  // namespace

bool fused_norm_step(Context& ctx, const LinearShape& linear, const BFloat16* x,
                     const NormWeights<BFloat16>& norm, const BFloat16* w, const BFloat16* bias,
                     const ChunkShape& shape, const RecurrentView<BFloat16>& state, BFloat16* y) {
  const auto& [states, pending] = state;
  const Source source{{x, norm, linear.rows, linear.in},
                      w,
                      bias,
                      linear.rows > 0 ? shape.batch_heads / linear.rows : 0};
  const int64_t D = shape.features;
  if (linear.rows == 0 || norm.weight == nullptr || !can_fuse_norm(source.of, w) || D % 8 != 0 ||
      3 * D > Product<12>::kColumns || D != shape.values || pending.high == nullptr)
    return false;
  const Step step{shape, {}, states, pending, y};
  // tiles of 8 columns of q, k and v for each of four warps
  if (3 * D <= Product<3>::kColumns) return start<3, WarpTeam>(ctx, source, step);
  if (3 * D <= Product<6>::kColumns) return start<6, BlockTeam>(ctx, source, step);
  return start<12, BlockTeam>(ctx, source, step);
}

}  // namespace linea::cuda
