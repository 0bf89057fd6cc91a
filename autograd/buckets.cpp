#include "autograd/buckets.h"

#include <algorithm>
#include <utility>

#include "autograd/qkv_layout.h"
#include "tensor/launch.h"

namespace linea {
namespace {

// Positions by bucket, each bucket from a multiple of kKeyTile on.
struct Sorted {
  Sorted(const std::vector<int32_t>& buckets, int64_t count) {
    std::vector<int64_t> sizes(static_cast<size_t>(count));
    for (const int32_t bucket : buckets)
      if (bucket >= 0) ++sizes[static_cast<size_t>(bucket)];
    for (const int64_t size : sizes)
      begin.push_back(begin.back() + (size + kKeyTile - 1) / kKeyTile * kKeyTile);
    order.assign(static_cast<size_t>(begin.back()), -1);
    std::vector<int64_t> next(begin.begin(), begin.end() - 1);
    for (size_t position = 0; position < buckets.size(); ++position)
      if (const int32_t bucket = buckets[position]; bucket >= 0)
        order[static_cast<size_t>(next[static_cast<size_t>(bucket)]++)] =
            static_cast<int32_t>(position);
  }
  std::vector<int32_t> order;
  std::vector<int64_t> begin{0};  // [buckets + 1], rows of the order
};

// Buckets and ranks, in a round, of the keys of a tile.
struct TileKeys {
  TileKeys(const BucketRanges& of, const int32_t* keys) : ranges(of) {
    for (int64_t n = 0; n < kKeyTile; ++n) {
      const bool gap = keys[n] < 0;
      bucket[n] = gap ? -1 : of.of_keys[static_cast<size_t>(keys[n])];
      rank[n] = gap ? -1 : of.ranks[static_cast<size_t>(keys[n])];
    }
  }
  uint64_t seen_by(int32_t query) const {
    const auto at = static_cast<size_t>(query);
    const int32_t own = ranges.of_queries[at], first = ranges.first[at], end = ranges.end[at];
    if (own < 0) return 0;
    uint64_t bits = 0;
    for (int64_t n = 0; n < kKeyTile; ++n)
      bits |= uint64_t{bucket[n] == own && rank[n] >= first && rank[n] < end} << n;
    return bits;
  }
  const BucketRanges& ranges;
  int32_t bucket[kKeyTile], rank[kKeyTile];
};

// The pairs of kKeyTile queries and kKeyTile keys, from rank `first` of their bucket on.
KeyTiles::Mask mask_of(const std::vector<BucketRanges>& rounds, size_t round,
                       const int32_t* queries, const int32_t* keys, int64_t first) {
  const BucketRanges& own = rounds[round];
  std::vector<TileKeys> earlier;
  for (size_t r = 0; r < round; ++r) earlier.emplace_back(rounds[r], keys);
  KeyTiles::Mask mask{};
  for (int64_t i = 0; i < kKeyTile && queries[i] >= 0; ++i) {
    const auto query = static_cast<size_t>(queries[i]);
    uint64_t& bits = mask[static_cast<size_t>(i)];
    const int64_t bucket_end = own.sizes[static_cast<size_t>(own.of_queries[query])];
    bits =
        key_bits(own.first[query] - first, std::min<int64_t>(own.end[query], bucket_end) - first);
    for (const TileKeys& round_before : earlier)
      if (bits != 0) bits &= ~round_before.seen_by(queries[i]);
    const int64_t same =
        own.of_keys[query] == own.of_queries[query] ? own.ranks[query] - first : -1;
    bits &= ~key_bits(same, same + 1);
  }
  return mask;
}

}  // namespace

Tensor largest_products(const Tensor& x, const Tensor& w, bool mirrored) {
  const HeadTensor rows(x);
  const LargestProductShape shape{rows.batches * rows.heads,
                                  rows.heads,
                                  w.size(1),
                                  rows.length,
                                  rows.width,
                                  w.size(3),
                                  mirrored};
  const Tensor chosen({rows.batches, rows.heads, shape.rounds, shape.rows}, DType::i32);
  LINEA_LAUNCH(largest_product, x.dtype(), shape, rows, w, chosen);
  return chosen;
}

BucketRanges::BucketRanges(std::vector<int32_t> query_buckets, std::vector<int32_t> key_buckets,
                           int64_t bucket_count)
    : of_queries(std::move(query_buckets)),
      of_keys(std::move(key_buckets)),
      first(of_queries.size()),
      end(of_queries.size()),
      sizes(static_cast<size_t>(bucket_count)),
      buckets(bucket_count) {
  for (size_t i = 0; i < of_keys.size(); ++i) {
    const int32_t key = of_keys[i], query = of_queries[i];
    before.push_back(query < 0 ? 0 : sizes[static_cast<size_t>(query)]);
    ranks.push_back(key < 0 ? -1 : sizes[static_cast<size_t>(key)]++);
  }
}

int64_t BucketRanges::others(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  if (of_queries[at] < 0) return 0;
  const int32_t size = sizes[static_cast<size_t>(of_queries[at])];
  return std::max(std::min(end[at], size) - std::max(first[at], 0), 0) - (sees(i, i) ? 1 : 0);
}

KeyTiles::Lists bucket_tiles(const std::vector<BucketRanges>& rounds, size_t round) {
  const BucketRanges& own = rounds[round];
  Sorted queries(own.of_queries, own.buckets), keys(own.of_keys, own.buckets);
  KeyTiles::Lists lists;
  for (size_t bucket = 0; bucket < static_cast<size_t>(own.buckets); ++bucket) {
    const int64_t key_begin = keys.begin[bucket], size = keys.begin[bucket + 1] - key_begin;
    for (int64_t row = queries.begin[bucket]; row < queries.begin[bucket + 1]; row += kKeyTile) {
      const int32_t* const block = queries.order.data() + row;
      int64_t first = size, end = 0;  // ranks that the block sees
      for (int64_t i = 0; i < kKeyTile && block[i] >= 0; ++i) {
        first = std::min<int64_t>(first, own.first[static_cast<size_t>(block[i])]);
        end = std::max<int64_t>(end, own.end[static_cast<size_t>(block[i])]);
      }
      first = std::max<int64_t>(first, 0) / kKeyTile * kKeyTile;
      for (int64_t rank = first; rank < std::min(end, size); rank += kKeyTile) {
        const KeyTiles::Mask mask =
            mask_of(rounds, round, block, keys.order.data() + key_begin + rank, rank);
        if (std::any_of(mask.begin(), mask.end(), [](uint64_t bits) { return bits != 0; }))
          lists.add_tile((key_begin + rank) / kKeyTile, mask, false);
      }
      lists.end_block();
    }
  }
  lists.queries = std::move(queries.order);
  lists.keys = std::move(keys.order);
  return lists;
}

KeyTiles::Lists own_keys(const std::vector<int32_t>& rows) {
  KeyTiles::Lists lists;
  lists.queries = lists.keys = rows;
  for (int64_t row = 0; row < static_cast<int64_t>(rows.size()); row += kKeyTile) {
    KeyTiles::Mask diagonal{};
    for (size_t i = 0; i < std::min(diagonal.size(), rows.size() - static_cast<size_t>(row)); ++i)
      diagonal[i] = uint64_t{1} << i;
    lists.add_tile(row / kKeyTile, diagonal, false);
    lists.end_block();
  }
  return lists;
}

}  // namespace linea
