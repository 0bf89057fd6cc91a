// Embeddings of tokens, positions and classes.
#include <bit>

#include "cuda/elements.h"
#include "cuda/kernel_tables.h"
#include "cuda/team.h"
#include "tensor/formulas.h"
#include "tensor/workspace.h"

namespace linea::cuda {
namespace {

// A row, and the bin whose sum it is part of.
struct alignas(8) BinnedRow {
  int32_t bin;
  uint32_t row;
};

// How R < 2^31 rows are split: a block sorts a tile of them, a thread adds a piece of them. If all are
// in one bin, a thread adds the sums of all pieces: at most 4 times as many as a piece has rows.
struct RowSplit {
  uint32_t R, piece = 32, tile;
  explicit RowSplit(int64_t rows) : R(static_cast<uint32_t>(rows)) {
    while (int64_t{4} * piece * piece < rows) piece *= 2;
    tile = 8 * piece;
  }
  LINEA_HOST_DEVICE uint32_t tiles() const { return (R + tile - 1) / tile; }
  LINEA_HOST_DEVICE uint32_t pieces() const { return (R + piece - 1) / piece; }
};

// A pass of a stable radix sort of rows by bin: by eight bits, the digit, from `shift` on. The first
// launch counts the rows of each digit in each tile, counts [tiles,kDigits]; the second moves them
// behind those of smaller digits and of earlier tiles. The first pass reads the rows in order from
// ids, their bins; `from` is nullptr.
template <bool kMoves>
__global__ void __launch_bounds__(kBlockThreads)
    sort_kernel(RowSplit split, int shift, const int32_t* ids, const BinnedRow* from,
                uint32_t* counts, BinnedRow* to) {
  constexpr int kWarps = kBlockThreads / kWarp, kDigits = 256;
  static_assert(kDigits == kBlockThreads);  // thread d has the count of digit d
  __shared__ uint32_t place[kWarps][kDigits], of_warp[kWarps];
  const unsigned d = threadIdx.x, lane = d % kWarp, warp = d / kWarp, tile = blockIdx.x;
  uint32_t next = 0;  // the place of the tile's next row with digit d
  if constexpr (kMoves) {
    uint32_t all = 0;
#pragma unroll 8
    for (uint32_t t = 0; t < split.tiles(); ++t) {
      const uint32_t count = counts[t * kDigits + d];
      all += count;
      next += t < tile ? count : 0;
    }
    const uint32_t up_to = warp_running_sum(all);
    if (lane == kWarp - 1) of_warp[warp] = up_to;
    __syncthreads();
    for (unsigned w = 0; w < warp; ++w) next += of_warp[w];
    next += up_to - all;
  }
  const uint32_t end = min((tile + 1) * split.tile, split.R);
  for (uint32_t i = tile * split.tile + d; i - d < end; i += kBlockThreads) {
    BinnedRow row{0, i};
    if (i < end) row = from == nullptr ? BinnedRow{ids[i], i} : from[i];
    const unsigned digit = static_cast<unsigned>(row.bin) >> shift & (kDigits - 1);
    unsigned same = __ballot_sync(kWholeWarp, i < end);  // the lanes with this digit
#pragma unroll
    for (unsigned bit = 1; bit < kDigits; bit *= 2) {
      const unsigned set = __ballot_sync(kWholeWarp, (digit & bit) != 0);
      same &= (digit & bit) != 0 ? set : ~set;
    }
    const unsigned before = __popc(same & ((1u << lane) - 1)), count = __popc(same);
    for (int w = 0; w < kWarps; ++w) place[w][d] = 0;
    __syncthreads();
    if (i < end && before == 0) place[warp][digit] = count;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t rows = place[w][d];
      place[w][d] = next;
      next += rows;
    }
    __syncthreads();
    if (kMoves && i < end) to[place[warp][digit] + before] = row;
    __syncthreads();  // the next iteration reuses place
  }
  if (!kMoves) counts[tile * kDigits + d] = next;
}

// Adds the rows of each piece in their order, then the pieces of each bin in theirs, a thread kWidth
// columns. The sum of bin b in piece p is row p + b of `partial`, and no other sum is: from one sum to
// the next p grows, or b, or both.
template <int kWidth, typename T>
void sum_bins(Context& ctx, const RowSplit& split, const BinnedRow* sorted, const T* dy, T* dtable,
              int64_t bins, int64_t C) {
  using A = Accumulator<T>;
  const int64_t groups = C / kWidth;  // of columns
  const Workspace<A> sums_of_pieces(ctx, (split.pieces() + bins) * C);
  A* const partial = sums_of_pieces.data();
  for_each(ctx, split.pieces() * groups, [=] __device__(int64_t i) {
    constexpr uint32_t kAhead = 8;  // rows that are requested together
    const int64_t piece = i / groups, c = i % groups * kWidth;
    const uint32_t first = static_cast<uint32_t>(piece) * split.piece,
                   end = min(first + split.piece, split.R);
    int32_t bin = sorted[first].bin;
    A sums[kWidth] = {};
    for (uint32_t from = first; from < end; from += kAhead) {
      BinnedRow next[kAhead];
      Elements<T, kWidth> grad[kAhead];
#pragma unroll
      for (uint32_t n = 0; n < kAhead; ++n) next[n] = sorted[min(from + n, end - 1)];
#pragma unroll
      for (uint32_t n = 0; n < kAhead; ++n)
        grad[n] = load_elements<T, kWidth>(dy + next[n].row * C + c);
#pragma unroll
      for (uint32_t n = 0; n < kAhead && from + n < end; ++n) {
        if (next[n].bin != bin) {
          store_elements(sums, partial + (piece + bin) * C + c);
          for (A& sum : sums) sum = 0;
          bin = next[n].bin;
        }
        for (int e = 0; e < kWidth; ++e) sums[e] += grad[n].at(e);
      }
    }
    store_elements(sums, partial + (piece + bin) * C + c);
  });
  for_each(ctx, bins * groups, [=] __device__(int64_t i) {
    const int64_t bin = i / groups, c = i % groups * kWidth;
    uint32_t first = 0, end = 0;  // of the bin's rows
    for (uint32_t step = std::bit_floor(split.R); step > 0; step /= 2) {
      if (first + step <= split.R && sorted[first + step - 1].bin < bin) first += step;
      if (end + step <= split.R && sorted[end + step - 1].bin <= bin) end += step;
    }
    const uint32_t end_piece = first == end ? 0 : (end - 1) / split.piece + 1;
    A sums[kWidth] = {};
#pragma unroll 4
    for (uint32_t piece = first / split.piece; piece < end_piece; ++piece) {
      const auto sum = load_elements<A, kWidth>(partial + (piece + bin) * C + c);
      for (int e = 0; e < kWidth; ++e) sums[e] += sum.at(e);
    }
    store_elements(sums, dtable + bin * C + c);
  });
}

}  // namespace

// y[r] = table[ids[r]]
template <typename T>
void embedding(Context& ctx, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const T* from = table + ids[r] * C;
    T* to = y + r * C;
    for (int64_t c = team.rank(); c < C; c += team.kThreads) to[c] = from[c];
  });
}

template <typename T>
void embed_position(Context& ctx, const Accumulator<T>* table, const int32_t* ids,
                    const Accumulator<T>* position_table, const int32_t* positions, T* y, int64_t R,
                    int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const Accumulator<T>*token = table + ids[r] * C, *position = position_table + positions[r] * C;
    for (int64_t c = team.rank(); c < C; c += team.kThreads)
      y[r * C + c] = T(token[c] + position[c]);
  });
}

// dtable[s] = sum of dy[r] where ids[r] = s
template <typename T>
void embedding_backward(Context& ctx, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t tokens, int64_t C) {
  const RowSplit split(R);
  const Workspace<uint32_t> counts(ctx, int64_t{split.tiles()} * kBlockThreads);
  const Workspace<BinnedRow> one(ctx, R), other(ctx, R);
  const BinnedRow* sorted = nullptr;
  for (int shift = 0; R > 0 && (shift == 0 || (tokens - 1) >> shift > 0); shift += 8) {
    BinnedRow* const to = sorted == one.data() ? other.data() : one.data();
    for (const auto kernel : {sort_kernel<false>, sort_kernel<true>})
      launch(kernel, dim3(split.tiles()), dim3(kBlockThreads), 0, stream(ctx), split, shift, ids,
             sorted, counts.data(), to);
    sorted = to;
  }
  with_width<T>(rows_are_wide<T>(C, {dy, dtable}),
                [&](auto width) { sum_bins<width>(ctx, split, sorted, dy, dtable, tokens, C); });
}

inline void class_index(Context& ctx, const int32_t* ids, const int32_t* positions, int32_t* index,
                        int64_t B, int64_t N, int64_t first, int64_t classes) {
  for_each(ctx, B * N, [=] __device__(int64_t i) {
    const int64_t b = i / N;
    if (positions == nullptr || positions[b] == 0) index[i] = class_row(ids[b * N], first, classes);
  });
}

LINEA_KERNEL_TABLE(EmbeddingKernels, .embedding = embedding<T>,
                   .embedding_backward = embedding_backward<T>, .embed_position = embed_position<T>,
                   .class_index = class_index)

}  // namespace linea::cuda
