// How the work of a linear attention is cut: tiles of (batch, head) pairs, segments of positions; and how
// tensors are cut alike. Shared by the engines of the update rules.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "nn/feature_map.h"
#include "tensor/ops.h"

namespace linea {

struct EngineOptions {
  bool causal = true;
  Tensor valid;         // i32 [B], how many keys of each sequence exist; undefined: all
  int64_t segment = 0;  // positions a tile; 0: chosen
  int64_t chunk = 0;    // rows a matrix product; 0: chosen
};

// Features of one tile are meant to stay in a core's cache.
inline constexpr int64_t kTileElements = 65536;
inline constexpr int64_t kSegment = 256;

struct Tile {
  int64_t first_pair, pairs;
};
struct Segment {
  int64_t first, length;
};

// Sizes of one call and how its work is cut.
struct Plan {
  Plan(const FeatureMap& map, const Tensor& q, const Tensor& v, const EngineOptions& options)
      : heads(q.size(1)),
        pairs(q.size(0) * q.size(1)),
        length(q.size(2)),
        key_size(q.size(3)),
        features(map.features(q.size(3))),
        values(v.size(3)),
        kind(map.kind()),
        options_(options) {
    segment_ = std::min(options.segment > 0 ? options.segment : kSegment, std::max<int64_t>(length, 1));
    chunk_ = std::min(options.chunk > 0 ? options.chunk : (features <= 48 ? 32 : 64), segment_);
    const int64_t threads = context().threads;
    const int64_t fitting = kTileElements / (segment_ * std::max<int64_t>(features, 1));
    tile_pairs_ = threads * std::max<int64_t>(1, fitting);
  }

  std::vector<Tile> tiles() const {
    std::vector<Tile> result;
    for (int64_t first = 0; first < pairs; first += tile_pairs_)
      result.push_back({first, std::min(tile_pairs_, pairs - first)});
    return result;
  }

  std::vector<Segment> segments() const {
    std::vector<Segment> result;
    for (int64_t first = 0; first < length; first += segment_)
      result.push_back({first, std::min(segment_, length - first)});
    return result;
  }

  ChunkShape chunk_shape(const Tile& tile, const Segment& part) const {
    const int32_t* counts = options_.valid.defined() ? options_.valid.data<int32_t>() : nullptr;
    return {tile.pairs, part.length, features, values, chunk_, part.first, {counts, heads, tile.first_pair}, kind};
  }

  // A segment of a tile of x [B,H,N,width] as it lies there; width 1 for x [pairs,N].
  template <typename T>
  Strided<T> strided(const Tensor& x, int64_t width, const Tile& tile, const Segment& part) const {
    T* data = x.data<std::remove_const_t<T>>();
    return {data + (tile.first_pair * length + part.first) * width, length * width};
  }

  // The same [pairs, segment, width] in one piece: x itself where it is, else a copy.
  template <typename T>
  Tensor gather(const Tensor& x, int64_t width, const Tile& tile, const Segment& part) const {
    const Shape shape{tile.pairs, part.length, width};
    if (part.length == length)
      return x.reshape({pairs, length, width}).rows(tile.first_pair, tile.pairs);
    Tensor result(shape, x.dtype());
    kernels<T>(context().device)
        .copy_runs(context(), strided<const T>(x, width, tile, part),
                   {result.data<T>(), part.length * width}, tile.pairs, part.length * width);
    return result;
  }

  template <typename T>
  void scatter(const Tensor& from, int64_t width, const Tile& tile, const Segment& part,
               const Tensor& to) const {
    kernels<T>(context().device)
        .copy_runs(context(), {from.data<T>(), part.length * width}, strided<T>(to, width, tile, part),
                   tile.pairs, part.length * width);
  }

  PairRange pairs_of(const Tile& tile) const { return {tile.first_pair, heads}; }

  int64_t heads, pairs, length, key_size, features, values;
  FeatureKind kind;

 private:
  EngineOptions options_;
  int64_t segment_, chunk_, tile_pairs_;
};

// The elements, or null where x is undefined.
template <typename T>
T* pointer(const Tensor& x) {
  return x.defined() ? x.data<std::remove_const_t<T>>() : nullptr;
}

}  // namespace linea
