// The keys that queries see, as the kernels of softmax attention take them: ranges, tiles, and those of
// largest q.k. Letters as in tensor/kernels.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/random.h"
#include "tensor/element.h"

namespace linea {

// The number of keys of each sequence; later ones are padding and never read. count null: no
// padding; else bh of a tile has count[(first_bh + bh) / heads] keys.
struct ValidKeys {
  const int32_t* count = nullptr;
  int64_t heads = 1, first_bh = 0;
};

// The keys [first, end) of one query.
struct KeyRange {
  int64_t first, end;
};

// The keys that queries see: query i of bh the range [i + first, i + end), cut to the keys that
// exist, or where arrays [BH,queries] are given, [firsts[bh,i], ends[bh,i]). Neither end decreases
// from one query to the next: sorted rows and packed sequences have such ranges, too.
struct KeyRanges {
  int64_t first, end;
  const int32_t *firsts = nullptr, *ends = nullptr;
};

// Attention of queries to keys: q [BH,queries,D], k [BH,keys,D], v [BH,keys,M]. Scores are multiplied
// by `scale`.
struct AttentionShape {
  int64_t batch_heads, queries, keys, key_size, value_size;
  ValidKeys valid;
  double scale;

  // The position of query i: queries end where the keys do.
  LINEA_HOST_DEVICE int64_t position(int64_t i) const { return i + keys - queries; }
};

// Softmax attention to ranges of keys.
struct SoftmaxShape : AttentionShape {
  KeyRanges ranges;
  FloatProducts products = FloatProducts::exact;

  // The keys of query i of bh among the first `count`, those that exist.
  LINEA_HOST_DEVICE KeyRange seen(int64_t bh, int64_t i, int64_t count) const {
    const int64_t row = bh * queries + i;
    const int64_t end = ranges.ends == nullptr ? i + ranges.end : ranges.ends[row];
    const int64_t first = ranges.firsts == nullptr ? i + ranges.first : ranges.firsts[row];
    const int64_t cut = end < 0 ? 0 : end < count ? end : count;
    return {first < 0 ? 0 : first < cut ? first : cut, cut};
  }
};

inline constexpr int64_t kKeyTile = 64;  // queries and keys of a tile

// The bits [first, end) of a word, cut to it: which keys of a tile a query sees.
inline uint64_t key_bits(int64_t first, int64_t end) {
  first = std::max<int64_t>(first, 0);
  end = std::min(end, kKeyTile);
  return first >= end ? 0 : ~uint64_t{0} >> (kKeyTile - (end - first)) << first;
}

// The keys that queries see, where these are no ranges: blocks of kKeyTile queries, each with its tiles of
// kKeyTile keys. A set has one part or several, with orders of their own; a query sees a key in one part at
// most.
struct KeyTileSet {
  struct Order {
    int64_t count;
    const int32_t* positions;  // the n-th, -1 for a gap; null: n
  };
  struct Part {
    Order queries, keys;
    const int32_t* offsets;  // [blocks of queries + 1]: where the tiles of each begin
    const int32_t* blocks;   // of each tile: its block of keys
    const int32_t* masks;    // its mask; -1: all queries see all keys
    const uint64_t* bits;    // [masks, kKeyTile], bit j of word i: query i sees key j
  };
  const Part* parts;
  int64_t count;
};

// Softmax attention with sets of keys, of each batch head one.
struct SparseShape : AttentionShape {
  const KeyTileSet* sets;  // [BH]
  // Columns of a bias [valid.heads,bias_length] that is added to scores by the distance of query and
  // key. 0: there is none.
  int64_t bias_length = 0;
  bool adds = false;  // the backward adds gradients of q, k and v to what is there
};

// Spans of rows of x [BH,rows,width]: `count` of them, the c-th of rows [c stride, c stride + size), and
// their means or, where `largest`, the largest number of each column, of equals the first.
struct SpanShape {
  int64_t batch_heads, rows, width, size, stride, count;
  bool largest = false;
};

// The `count` keys with the largest q.k of each query, and the query's own position: count + 1 indices a
// query, in order, -1 where there are fewer. `scale`: in the softmax over these keys.
struct TopKeysShape : AttentionShape {
  int64_t count;
  bool causal;
  bool adds = false;  // the backward adds gradients of q, k and v to what is there
};

// The column c of w [H,rounds,width,columns] of the largest x.w_c for each row x [BH,rows,width], one for each
// round; mirrored: or columns + c of the largest -x.w_c. Of equals the first.
struct LargestProductShape {
  int64_t batch_heads, heads, rounds, rows, width, columns;
  bool mirrored;
};

}  // namespace linea
