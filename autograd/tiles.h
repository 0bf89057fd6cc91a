// How the work of a linear attention is cut: tiles of (batch, head) pairs, segments of positions;
// and how tensors are cut alike. Shared by the engines of the update rules.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "autograd/feature_map.h"
#include "autograd/qkv_layout.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea {

struct LinearAttentionOptions {
  bool causal = true;
  Tensor valid;         // i32 [B], how many keys of each sequence exist; undefined: all
  int64_t segment = 0;  // positions a tile; 0: chosen
  int64_t chunk = 0;    // rows a matrix product; 0: chosen
};

struct Tile {
  int64_t first_bh, batch_heads;
};
struct Segment {
  int64_t first, length;
};

// Sizes of one call and how its work is cut. Where the kernels make the features themselves a
// segment is the whole length: nothing of it but a chunk is ever made.
struct Plan {
  Plan(const FeatureMap& map, const HeadTensor& q, const HeadTensor& v,
       const LinearAttentionOptions& options, KernelFeature made = KernelFeature::given)
      : heads(q.heads),
        batch_heads(q.batches * q.heads),
        length(q.length),
        key_size(q.width),
        features(map.features(q.width)),
        values(v.width),
        kind(map.kind()),
        feature(made),
        options_(options) {
    const bool in_kernel = made != KernelFeature::given;
    const WorkSizes& sizes = context().sizes;
    const int64_t usual = in_kernel ? length : sizes.segment;
    segment_ = std::clamp<int64_t>(options.segment > 0 ? options.segment : usual, 1,
                                   std::max<int64_t>(length, 1));
    chunk_ = std::min(options.chunk > 0 ? options.chunk : (in_kernel || features <= 48 ? 32 : 64),
                      segment_);
    const int64_t of_pair = in_kernel ? features * values : segment_ * features;
    const int64_t tiles_at_once = context().device.kind == DeviceKind::cpu ? context().threads : 1;
    tile_bh_ = tiles_at_once * std::max<int64_t>(1, sizes.tile / std::max<int64_t>(of_pair, 1));
  }

  std::vector<Tile> tiles() const {
    std::vector<Tile> result;
    for (int64_t first = 0; first < batch_heads; first += tile_bh_)
      result.push_back({first, std::min(tile_bh_, batch_heads - first)});
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
    return {tile.batch_heads,
            part.length,
            features,
            values,
            chunk_,
            part.first,
            {counts, heads, tile.first_bh},
            kind,
            feature};
  }

  template <typename T>
  HeadRows<T> rows(const HeadTensor& x, const Tile& tile, const Segment& part) const {
    return x.rows<T>(tile.first_bh, part.first);
  }

  // A segment of a tile of x [B,H,N,width] contiguous per bh; width 1 for x [BH,N].
  template <typename T>
  Strided<T> strided(const Tensor& x, int64_t width, const Tile& tile, const Segment& part) const {
    T* data = x.data<std::remove_const_t<T>>();
    return {data + (tile.first_bh * length + part.first) * width, length * width};
  }

  // The same, contiguous [BH, segment, width]: x itself where it is, else a copy.
  template <typename T>
  Tensor gather(const HeadTensor& x, const Tile& tile, const Segment& part) const {
    if (part.length == length && x.whole())
      return x.data.reshape({batch_heads, length, x.width}).rows(tile.first_bh, tile.batch_heads);
    Tensor result({tile.batch_heads, part.length, x.width}, x.data.dtype());
    kernels<T>(context().device)
        .copy_rows(context(), rows<const T>(x, tile, part),
                   head_rows(result.data<T>(), part.length, x.width), tile.batch_heads, part.length,
                   x.width);
    return result;
  }

  // The same of keys, with zeros in the padding, which may hold anything: no NaN reaches the
  // features or the gradients of a map's parameters.
  template <typename T>
  Tensor gather_keys(const HeadTensor& x, const Tile& tile, const Segment& part) const {
    const Tensor rows = gather<T>(x, tile, part);
    if (!options_.valid.defined() || rows.numel() == 0) return rows;
    const Tensor result = rows.clone();
    kernels<T>(context().device)
        .clear_padding(context(), chunk_shape(tile, part).valid, result.data<T>(), tile.batch_heads,
                       part.length, x.width, part.first);
    return result;
  }

  template <typename T>
  void scatter(const Tensor& from, const Tile& tile, const Segment& part,
               const HeadTensor& to) const {
    kernels<T>(context().device)
        .copy_rows(context(), head_rows<const T>(from.data<T>(), part.length, to.width),
                   rows<T>(to, tile, part), tile.batch_heads, part.length, to.width);
  }

  PairRange pairs_of(const Tile& tile) const { return {tile.first_bh, heads}; }

  int64_t heads, batch_heads, length, key_size, features, values;
  FeatureKind kind;
  KernelFeature feature;

 private:
  LinearAttentionOptions options_;
  int64_t segment_, chunk_, tile_bh_;
};

// The elements, or null where x is undefined.
template <typename T>
T* pointer(const Tensor& x) {
  return x.defined() ? x.data<std::remove_const_t<T>>() : nullptr;
}

}  // namespace linea
