#include "nn/engine.h"

#include <algorithm>

#include "tensor/ops.h"

namespace linea {
namespace {

// Features of one tile are meant to stay in a core's cache.
constexpr int64_t kTileElements = 65536;
constexpr int64_t kSegment = 256;

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
    return {tile.pairs, part.length, features, values, chunk_, part.first, {counts, heads, tile.first_pair}};
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

  LinearState zero_state(const Tile& tile, DType dtype) const {
    return {Tensor::zeros({tile.pairs, features, values}, dtype),
            Tensor::zeros({tile.pairs, features}, dtype)};
  }

  int64_t heads, pairs, length, key_size, features, values;

 private:
  EngineOptions options_;
  int64_t segment_, chunk_, tile_pairs_;
};

template <typename T>
T* pointer(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

struct Forward {
  Tensor y, denominator;  // [B,H,N,M], [pairs,N]
};

template <typename T>
Forward run_forward(const FeatureMap& map, const Tensor& q, const Tensor& k, const Tensor& v,
                    const EngineOptions& options) {
  const Plan plan(map, q, v, options);
  Forward result{Tensor(v.shape(), v.dtype()), Tensor({plan.pairs, plan.length}, v.dtype())};
  const auto visit = [&](const Tile& tile, const Segment& part, LinearState& carried, bool reads,
                         bool absorbs) {
    Tensor phi_q, phi_k;
    if (reads) phi_q = map.forward(plan.gather<T>(q, plan.key_size, tile, part));
    if (absorbs) phi_k = map.forward(plan.gather<T>(k, plan.key_size, tile, part));
    kernels<T>(context().device)
        .chunk_forward(context(), plan.chunk_shape(tile, part), pointer<T>(phi_q), pointer<T>(phi_k),
                       plan.strided<const T>(v, plan.values, tile, part), carried.state.data<T>(),
                       carried.key_sum.data<T>(), plan.strided<T>(result.y, plan.values, tile, part),
                       plan.strided<T>(result.denominator, 1, tile, part));
  };
  for (const Tile& tile : plan.tiles()) {
    LinearState carried = plan.zero_state(tile, v.dtype());
    if (!options.causal)
      for (const Segment& part : plan.segments()) visit(tile, part, carried, false, true);
    for (const Segment& part : plan.segments()) visit(tile, part, carried, true, options.causal);
  }
  return result;
}

template <typename T>
std::vector<Gradient> run_backward(const FeatureMap& map, const Tensor& q, const Tensor& k,
                                   const Tensor& v, const Tensor& denominator, const Tensor& dy,
                                   const EngineOptions& options) {
  const Plan plan(map, q, v, options);
  const Kernels<T>& table = kernels<T>(context().device);
  const int64_t D = plan.key_size, F = plan.features, M = plan.values;
  const Tensor dq(q.shape(), q.dtype()), dk(k.shape(), k.dtype()), dv(v.shape(), v.dtype());
  const Tensor ddenominator(denominator.shape(), denominator.dtype());

  // dq = phi'(q) (n S^T + e z), along the states of the forward pass
  const auto sweep_forward = [&](const Tile& tile, const Segment& part, LinearState& carried, bool reads,
                                 bool absorbs) {
    Tensor q_tile, phi_q, phi_k, dphi;
    if (reads) {
      q_tile = plan.gather<T>(q, D, tile, part);
      phi_q = map.forward(q_tile);
      dphi = Tensor({tile.pairs, part.length, F}, q.dtype());
    }
    if (absorbs) phi_k = map.forward(plan.gather<T>(k, D, tile, part));
    table.chunk_backward_query(
        context(), plan.chunk_shape(tile, part), pointer<T>(phi_q), pointer<T>(phi_k),
        plan.strided<const T>(v, M, tile, part), plan.strided<const T>(dy, M, tile, part),
        plan.strided<const T>(denominator, 1, tile, part), carried.state.data<T>(),
        carried.key_sum.data<T>(), pointer<T>(dphi), plan.strided<T>(ddenominator, 1, tile, part));
    if (reads) plan.scatter<T>(map.backward(q_tile, dphi), D, tile, part, dq);
  };

  // dk = phi'(k) (v R^T + r), dv = phi(k) R, along the gradients R, r of the states
  const auto sweep_backward = [&](const Tile& tile, const Segment& part, LinearState& carried, bool absorbs,
                                  bool reads) {
    Tensor k_tile, phi_q, phi_k, dphi;
    if (reads) {
      k_tile = plan.gather<T>(k, D, tile, part);
      phi_k = map.forward(k_tile);
      dphi = Tensor({tile.pairs, part.length, F}, k.dtype());
    }
    if (absorbs) phi_q = map.forward(plan.gather<T>(q, D, tile, part));
    table.chunk_backward_key(
        context(), plan.chunk_shape(tile, part), pointer<T>(phi_q), pointer<T>(phi_k),
        plan.strided<const T>(v, M, tile, part), plan.strided<const T>(dy, M, tile, part),
        plan.strided<const T>(denominator, 1, tile, part),
        plan.strided<const T>(ddenominator, 1, tile, part), carried.state.data<T>(),
        carried.key_sum.data<T>(), pointer<T>(dphi), plan.strided<T>(dv, M, tile, part));
    if (!reads) return;
    const Tensor dk_tile = map.backward(k_tile, dphi);
    if (options.valid.defined())  // dphi = 0 there, but a derivative of padding may be inf or NaN
      table.clear_padding(context(), plan.chunk_shape(tile, part).valid, dk_tile.data<T>(), tile.pairs,
                          part.length, D, part.first);
    plan.scatter<T>(dk_tile, D, tile, part, dk);
  };

  std::vector<Segment> parts = plan.segments();
  for (const Tile& tile : plan.tiles()) {
    LinearState states = plan.zero_state(tile, v.dtype());
    if (!options.causal)
      for (const Segment& part : parts) sweep_forward(tile, part, states, false, true);
    for (const Segment& part : parts) sweep_forward(tile, part, states, true, options.causal);

    LinearState slopes = plan.zero_state(tile, v.dtype());
    std::reverse(parts.begin(), parts.end());
    if (!options.causal)
      for (const Segment& part : parts) sweep_backward(tile, part, slopes, true, false);
    for (const Segment& part : parts) sweep_backward(tile, part, slopes, options.causal, true);
    std::reverse(parts.begin(), parts.end());
  }
  return {dq, dk, dv};
}

}  // namespace

Var linear_attention(const FeatureMap& map, const Var& q, const Var& k, const Var& v,
                     const EngineOptions& options) {
  const DType dtype = ops::common_dtype("linear_attention", {&q.value(), &k.value(), &v.value()});
  require(q.shape().rank() == 4 && v.shape().rank() == 4, "linear_attention: q {} and v {} are not [B,H,N,D]",
          q.shape().str(), v.shape().str());
  ops::require_shape("linear_attention", "k", k.value(), q.shape());
  ops::require_shape("linear_attention", "v", v.value(), q.shape().with(-1, v.size(-1)));
  if (options.valid.defined())
    ops::require_shape("linear_attention", "valid", options.valid, {q.size(0)});
  return with_real(dtype, "linear_attention", [&](auto zero) {
    using T = decltype(zero);
    const Forward forward = run_forward<T>(map, q.value(), k.value(), v.value(), options);
    return Var::made_by(
        "linear_attention", forward.y, {q, k, v},
        [&map, q = q.value(), k = k.value(), v = v.value(), denominator = forward.denominator,
         options](const Tensor& dy) {
          return run_backward<T>(map, q, k, v, denominator, dy, options);
        });
  });
}

LinearState start_linear(int64_t batch, int64_t heads, int64_t features, int64_t value_size,
                         DType dtype) {
  return {Tensor::zeros({batch, heads, features, value_size}, dtype),
          Tensor::zeros({batch, heads, features}, dtype)};
}

Tensor linear_step(const FeatureMap& map, LinearState& state, const Tensor& q, const Tensor& k,
                   const Tensor& v) {
  const Tensor phi_q = map.forward(q), phi_k = map.forward(k);
  const int64_t F = state.key_sum.size(-1), M = v.size(-1);
  Tensor y(v.shape(), v.dtype());
  with_real(v.dtype(), "linear_step", [&](auto zero) {
    using T = decltype(zero);
    kernels<T>(context().device)
        .recurrent_step(context(), phi_q.data<T>(), phi_k.data<T>(), v.data<T>(),
                        state.state.data<T>(), state.key_sum.data<T>(), y.data<T>(), v.numel() / M, F, M);
  });
  return y;
}

}  // namespace linea
