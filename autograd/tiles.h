// How linear attention cuts its work, for all update rules: tiles of batch heads (pairs of a
// sequence and a head), segments of positions, and the same cuts of its tensors.
#pragma once

#include <algorithm>
#include <vector>

#include "autograd/feature_map.h"
#include "autograd/qkv_layout.h"
#include "autograd/sequence_part.h"
#include "tensor/backend.h"
#include "tensor/ops.h"
#include "tensor/schedule.h"

namespace linea {

struct LinearAttentionOptions {
  bool causal = true;
  Tensor valid;         // i32 [B], how many keys of each sequence exist; undefined: all
  int64_t segment = 0;  // positions a tile; 0: chosen
  int64_t chunk = 0;    // rows a matrix product; 0: chosen
};

// Some batch heads at some positions: all of a tile, or one of its segments.
struct Tile {
  int64_t first_bh = 0, batch_heads = 0, first = 0, length = 0;
  bool operator==(const Tile&) const = default;
};

// The sizes of one call and how its work is cut. Where the kernels make the features, a segment is
// the whole length: no more than a chunk of features ever exists. adds: states are sums, which parts of
// sequences may scan.
template <typename T>
struct Plan {
  Plan(const FeatureMap& map, const HeadTensor& q, const HeadTensor& v,
       const LinearAttentionOptions& options, KernelFeature kernel_feature = KernelFeature::given,
       bool gated = false, bool adds = false)
      : heads(q.heads),
        batch_heads(q.batches * q.heads),
        length(q.length),
        key_size(q.width),
        features(map.features(q.width)),
        values(v.width),
        kind(map.kind()),
        feature(kernel_feature),
        options_(options) {
    const bool in_kernel = feature != KernelFeature::given;
    const WorkSizes& sizes = context().sizes;
    const int64_t usual = in_kernel ? length : sizes.segment;
    segment_ = std::clamp<int64_t>(options.segment > 0 ? options.segment : usual, 1,
                                   std::max<int64_t>(length, 1));
    const bool rounded = chunk_products(context(), gated) == FloatProducts::rounded;
    const int64_t best = features <= 48 || (in_kernel && !rounded) ? 32 : 64;
    chunk_ = std::min(options.chunk > 0 ? options.chunk : best, segment_);
    const int64_t size = in_kernel ? features * values : segment_ * features;
    if (const SequencePart* const part = sequence_part()) {
      scans = adds && part->scans(batch_heads);
      if (!scans) {
        tiles_ = Schedule::in_order(batch_heads, part->tile(batch_heads));
        return;
      }
    }
    tiles_ = Schedule::in_cache(batch_heads,
                                std::max<int64_t>(1, sizes.tile / std::max<int64_t>(size, 1)),
                                !in_kernel, !map.parameters().empty());
  }

  // visit(tile) for all tiles.
  template <typename Visit>
  void each_tile(const Visit& visit) const {
    tiles_.each([&](int64_t piece, int) {
      const int64_t bh = piece * tiles_.size();
      visit(Tile{bh, std::min(tiles_.size(), batch_heads - bh), 0, length});
    });
  }

  std::vector<Tile> segments(const Tile& tile) const {
    std::vector<Tile> result;
    for (int64_t first = 0; first < length; first += segment_)
      result.push_back(
          {tile.first_bh, tile.batch_heads, first, std::min(segment_, length - first)});
    return result;
  }

  ChunkShape chunk_shape(const Tile& segment) const {
    return {segment.batch_heads,
            segment.length,
            features,
            values,
            chunk_,
            segment.first,
            {options_.valid.data_or_null<int32_t>(), heads, segment.first_bh},
            kind,
            feature};
  }

  HeadRows<T> rows(const HeadTensor& x, const Tile& segment) const {
    return x.rows<T>(segment.first_bh, segment.first);
  }

  // A segment of x [B,H,N,width] contiguous per bh; width 1 for x [BH,N].
  template <typename E = T>
  Strided<E> strided(const Tensor& x, int64_t width, const Tile& segment) const {
    return {x.data<E>() + (segment.first_bh * length + segment.first) * width, length * width};
  }

  // A segment of x, contiguous [BH, segment, width]: x itself where it is, else a copy. Keys have
  // zeros in the padding, which may hold anything: no NaN reaches the features or the gradients of
  // a map's parameters.
  Tensor gather(const HeadTensor& x, Side side, const Tile& segment) const {
    const bool clears = side == Side::key && options_.valid.defined();
    if (segment.length == length && x.contiguous() && !clears)
      return x.data.reshape({batch_heads, length, x.width})
          .rows(segment.first_bh, segment.batch_heads);
    const int64_t BH = segment.batch_heads, S = segment.length;
    const Tensor result({BH, S, x.width}, x.data.dtype());
    const Kernels<T>& table = kernels<T>(context().device);
    table.copy_rows(context(), rows(x, segment), head_rows(result.data<T>(), S, x.width), BH, S,
                    x.width);
    if (clears)
      table.clear_padding(context(), chunk_shape(segment).valid, result.data<T>(), BH, S, x.width,
                          segment.first);
    return result;
  }

  void scatter(const Tensor& from, const Tile& segment, const HeadTensor& to) const {
    kernels<T>(context().device)
        .copy_rows(context(), head_rows(from.data<T>(), segment.length, to.width),
                   rows(to, segment), segment.batch_heads, segment.length, to.width);
  }

  HeadRange head_range(const Tile& segment) const { return {segment.first_bh, heads}; }

  int64_t heads, batch_heads, length, key_size, features, values;
  FeatureKind kind;
  KernelFeature feature;
  bool scans = false;  // SequencePart::scans

 private:
  LinearAttentionOptions options_;
  int64_t segment_, chunk_;
  Schedule tiles_;  // of batch heads
};

// visit(segment, state) of the last segment first, `state` being the one before it, which
// advance(segment, state) takes over a segment, from `start` on. Of n segments about sqrt(n) states
// are saved, and those between are computed again.
template <typename Advance, typename Visit>
void each_segment_back(const std::vector<Tile>& segments, const Tensor& start,
                       const Advance& advance, const Visit& visit) {
  size_t stride = 1;  // segments between saved states: the square root of their number, or above
  while (stride * stride < segments.size()) ++stride;
  std::vector<Tensor> saved = {start};  // before segments 0, stride, 2 stride, ...
  for (size_t first = 0; first + stride < segments.size(); first += stride) {
    const Tensor state = saved.back().clone();
    for (size_t s = first; s < first + stride; ++s) advance(segments[s], state);
    saved.push_back(state);
  }
  for (; !saved.empty(); saved.pop_back()) {
    const size_t first = (saved.size() - 1) * stride,
                 end = std::min(first + stride, segments.size());
    std::vector<Tensor> states = {saved.back()};  // before segments first .. end - 1
    for (size_t s = first; s + 1 < end; ++s) {
      states.push_back(states.back().clone());
      advance(segments[s], states.back());
    }
    for (size_t s = end; s > first; --s, states.pop_back()) visit(segments[s - 1], states.back());
  }
}

// The elements, or null where x is undefined.
template <typename T>
T* pointer(const Tensor& x) {
  return x.data_or_null<T>();
}

}  // namespace linea
