#include "autograd/delta_attention.h"

#include <utility>

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// Checks what all forms are given, and returns the dtype that they share.
DType checked(const char* op, const Var& q, const Var& k, const Var& v, const Var& beta,
              bool causal, const Tensor& valid) {
  const DType dtype = ops::common_dtype(op, {&q.value(), &k.value(), &v.value(), &beta.value()});
  require(q.shape().rank() == 4 && v.shape().rank() == 4, "{}: q {} and v {} are not [B,H,N,D]", op,
          q.shape(), v.shape());
  ops::require_shape(op, "k", k.value(), q.shape());
  ops::require_shape(op, "v", v.value(), q.shape().with(-1, v.size(-1)));
  ops::require_shape(op, "beta", beta.value(), {q.size(0), q.size(1), q.size(2)});
  require(causal, "{}: the delta rule is causal only", op);
  if (valid.defined()) ops::require_shape(op, "valid", valid, {q.size(0)});
  return dtype;
}

// x, a tile's rows or a whole sequence's [P,S,...], with zeros where the keys do not exist: what
// stands there may be NaN, and must reach neither features nor the gradients of a map's parameters.
// x itself is left alone.
template <typename T>
Tensor without_padding(const Tensor& x, const ValidKeys& valid, int64_t first) {
  if (valid.count == nullptr || x.numel() == 0) return x;
  const Tensor result = x.clone();
  const int64_t P = x.size(0), S = x.size(1);
  kernels<T>(context().device)
      .clear_padding(context(), valid, result.data<T>(), P, S, x.numel() / (P * S), first);
  return result;
}

// The features of one side of a tile divided by their sums, and what their backward needs.
struct UnitFeatures {
  Tensor x;  // [P,S,D]
  Side side;
  PairRange pairs;
  Features made;
  Tensor rows, sums;  // [P,S,F]; sums of values only
};

UnitFeatures unit_features(const FeatureMap& map, const Tensor& x, Side side,
                           const PairRange& pairs) {
  UnitFeatures result{x, side, pairs, map.forward(x, side, pairs), {}, {}};
  if (map.kind() == FeatureKind::logs)
    result.rows = ops::softmax(result.made.rows);
  else
    std::tie(result.rows, result.sums) = ops::normalize(result.made.rows);
  return result;
}

Tensor unit_features_backward(const FeatureMap& map, const UnitFeatures& kept, const Tensor& drows,
                              const std::vector<Tensor>& gradients) {
  Features gradient;
  gradient.rows = map.kind() == FeatureKind::logs
                      ? ops::softmax_backward(kept.rows, drows)
                      : ops::normalize_backward(kept.rows, kept.sums, drows);
  if (kept.made.weight.defined())  // it cancels in the division
    gradient.weight = Tensor::zeros(kept.made.weight.shape(), kept.made.weight.dtype());
  return map.backward(kept.x, kept.made, gradient, kept.side, kept.pairs, gradients);
}

struct Inputs {
  Tensor q, k, v, beta;
};

// The work on one tile and segment, for the forward pass and the backward pass alike.
template <typename T>
class Engine {
 public:
  Engine(const FeatureMap& map, const Inputs& in, const LinearAttentionOptions& options)
      : map_(map), in_(in), plan_(map, in.q, in.v, options), table_(kernels<T>(context().device)) {}

  Tensor forward() const {
    const Tensor y(in_.v.shape(), in_.v.dtype());
    for (const Tile& tile : plan_.tiles()) {
      const Tensor state = zero_state(tile);
      for (const Segment& part : plan_.segments()) pass(tile, part, state, y);
    }
    return y;
  }

  // Gradients of q, k, v, beta; those of the map's parameters are added to `parameters`.
  Inputs backward(const Tensor& dy, const std::vector<Tensor>& parameters) const {
    const Inputs gradients{
        Tensor(in_.q.shape(), in_.q.dtype()), Tensor(in_.k.shape(), in_.k.dtype()),
        Tensor(in_.v.shape(), in_.v.dtype()), Tensor(in_.beta.shape(), in_.beta.dtype())};
    const std::vector<Segment> parts = plan_.segments();
    size_t stride =
        1;  // segments from one kept state to the next: the square root of their number, or above
    while (stride * stride < parts.size()) ++stride;
    for (const Tile& tile : plan_.tiles()) {
      const Tensor dstate = zero_state(tile);
      std::vector<Tensor> kept = {zero_state(tile)};  // before segments 0, stride, 2 stride, ...
      for (size_t first = 0; first + stride < parts.size(); first += stride) {
        const Tensor state = kept.back().clone();
        for (size_t s = first; s < first + stride; ++s) pass(tile, parts[s], state, Tensor());
        kept.push_back(state);
      }
      for (; !kept.empty(); kept.pop_back()) {
        const size_t first = (kept.size() - 1) * stride,
                     end = std::min(first + stride, parts.size());
        std::vector<Tensor> states = {kept.back()};  // before segments first .. end - 1
        for (size_t s = first; s + 1 < end; ++s) {
          states.push_back(states.back().clone());
          pass(tile, parts[s], states.back(), Tensor());
        }
        for (size_t s = end; s > first; --s, states.pop_back())
          pass_back(tile, parts[s - 1], states.back(), dstate, dy, gradients, parameters);
      }
    }
    return gradients;
  }

 private:
  Tensor zero_state(const Tile& tile) const {
    return Tensor::zeros({tile.batch_heads, plan_.features, plan_.values},
                         DTypeOf<Accumulator<T>>::value);
  }

  UnitFeatures queries(const Tile& tile, const Segment& part) const {
    return unit_features(map_, plan_.template gather<T>(in_.q, tile, part), Side::query,
                         plan_.pairs_of(tile));
  }

  UnitFeatures keys(const Tile& tile, const Segment& part) const {
    const Tensor x = plan_.template gather<T>(in_.k, tile, part);
    return unit_features(map_,
                         without_padding<T>(x, plan_.chunk_shape(tile, part).valid, part.first),
                         Side::key, plan_.pairs_of(tile));
  }

  // Takes `state` over the segment; reads it where y is there to be written.
  void pass(const Tile& tile, const Segment& part, const Tensor& state, const Tensor& y) const {
    const UnitFeatures k = keys(tile, part);
    Tensor q;
    Strided<T> out{};
    if (y.defined()) {
      q = queries(tile, part).rows;
      out = plan_.template strided<T>(y, plan_.values, tile, part);
    }
    table_.delta_forward(context(), plan_.chunk_shape(tile, part), pointer<T>(q),
                         pointer<T>(k.rows),
                         plan_.template strided<const T>(in_.v, plan_.values, tile, part),
                         plan_.template strided<const T>(in_.beta, 1, tile, part),
                         state.data<Accumulator<T>>(), out);
  }

  void pass_back(const Tile& tile, const Segment& part, const Tensor& state, const Tensor& dstate,
                 const Tensor& dy, const Inputs& gradients,
                 const std::vector<Tensor>& parameters) const {
    const UnitFeatures q = queries(tile, part), k = keys(tile, part);
    const Tensor dq(q.rows.shape(), q.rows.dtype()), dk(k.rows.shape(), k.rows.dtype());
    const int64_t M = plan_.values;
    table_.delta_backward(context(), plan_.chunk_shape(tile, part), pointer<T>(q.rows),
                          pointer<T>(k.rows), plan_.template strided<const T>(in_.v, M, tile, part),
                          plan_.template strided<const T>(in_.beta, 1, tile, part),
                          plan_.template strided<const T>(dy, M, tile, part),
                          state.data<Accumulator<T>>(), dstate.data<Accumulator<T>>(), dq.data<T>(),
                          dk.data<T>(), plan_.template strided<T>(gradients.v, M, tile, part),
                          plan_.template strided<T>(gradients.beta, 1, tile, part));
    plan_.template scatter<T>(unit_features_backward(map_, q, dq, parameters), tile, part,
                              gradients.q);
    plan_.template scatter<T>(unit_features_backward(map_, k, dk, parameters), tile, part,
                              gradients.k);
  }

  const FeatureMap& map_;
  const Inputs& in_;
  Plan plan_;
  const Kernels<T>& table_;
};

// y = x with zeros where the keys do not exist;  dx = dy with the same zeros
Var clear_padding(const Var& x, const Tensor& valid) {
  if (!valid.defined()) return x;
  const auto clear = [valid](const Tensor& all) {
    return with_real(all.dtype(), "clear_padding", [&](auto zero) {
      const int64_t B = all.size(0), H = all.size(1), N = all.size(2);
      const int64_t width = all.shape().product(3, all.shape().rank());
      return without_padding<decltype(zero)>(all.reshape({B * H, N, width}),
                                             {valid.data<int32_t>(), H}, 0)
          .reshape(all.shape());
    });
  };
  return Var::from_op("clear_padding", clear(x.value()), {x},
                      [clear](const Tensor& dy) -> std::vector<Gradient> { return {clear(dy)}; });
}

// x [..., N, N] with zeros on and above the diagonal. Through the host: an oracle.
Tensor strictly_lower(const Tensor& x) {
  return with_real(x.dtype(), "strictly_lower", [&](auto zero) {
    auto values = x.to_vector<decltype(zero)>();
    const size_t N = static_cast<size_t>(x.size(-1));
    for (size_t i = 0; i < values.size(); ++i)
      if (i % N >= i / N % N) values[i] = zero;
    return Tensor::from(values, x.shape());
  });
}

// x = L^-1 e, or L^-T e; l [..., N, N] is L below the diagonal, e [..., N, M]
Tensor solve(const Tensor& l, const Tensor& e, bool transpose) {
  const Tensor x(e.shape(), e.dtype());
  const int64_t N = e.size(-2), M = e.size(-1);
  if (e.numel() > 0)
    with_real(e.dtype(), "solve_unit_lower", [&](auto zero) {
      using T = decltype(zero);
      kernels<T>(context().device)
          .solve_unit_lower(context(), l.data<T>(), e.data<T>(), x.data<T>(), transpose,
                            e.numel() / (N * M), N, M);
    });
  return x;
}

// X = L^-1 E;  dE = L^-T dX, dL = -strictly_lower(dE X^T)
Var solve_unit_lower(const Var& l, const Var& e) {
  const Tensor x = solve(l.value(), e.value(), false);
  return Var::from_op("solve_unit_lower", x, {l, e}, [l = l.value(), x](const Tensor& dx) {
    const Tensor de = solve(l, dx, true);
    return std::vector<Gradient>{strictly_lower(ops::matmul(de, x, false, true, -1)), de};
  });
}

// beta [B,H,N] beside itself: [B,H,N,columns]
Var repeat(const Var& beta, int64_t columns) {
  const Shape& shape = beta.shape();
  return matmul(reshape(beta, {shape[0], shape[1], shape[2], 1}),
                Var(Tensor::full({1, columns}, beta.dtype(), 1.0)));
}

}  // namespace

Var delta_attention(std::shared_ptr<const FeatureMap> map, const Var& q, const Var& k, const Var& v,
                    const Var& beta, const LinearAttentionOptions& options) {
  const DType dtype = checked("delta_attention", q, k, v, beta, options.causal, options.valid);
  const Inputs in{q.value(), k.value(), v.value(), beta.value()};
  std::vector<Var> inputs = {q, k, v, beta};
  const std::vector<Var> parameters = map->parameters();
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return with_real(dtype, "delta_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor y = Engine<T>(*map, in, options).forward();
    return Var::from_op("delta_attention", y, inputs, [=](const Tensor& dy) {
      std::vector<Tensor> dparameters;
      for (const Var& parameter : parameters)
        dparameters.push_back(parameter.requires_grad()
                                  ? Tensor::zeros(parameter.shape(), parameter.dtype())
                                  : Tensor());
      const Inputs d = Engine<T>(*map, in, options).backward(dy, dparameters);
      std::vector<Gradient> gradients = {d.q, d.k, d.v, d.beta};
      gradients.insert(gradients.end(), dparameters.begin(), dparameters.end());
      return gradients;
    });
  });
}

DeltaState start_delta(int64_t batch, int64_t heads, int64_t features, int64_t value_size,
                       DType dtype) {
  return {Tensor::zeros({batch, heads, features, value_size}, dtype)};
}

Tensor delta_step(const FeatureMap& map, DeltaState& state, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& beta) {
  const int64_t P = beta.numel(), H = beta.size(1), F = state.state.size(-2), M = v.size(-1);
  const auto features = [&](const Tensor& x, Side side) {
    return unit_features(map, x.reshape({P, 1, x.size(-1)}), side, {0, H}).rows;
  };
  const Tensor y(v.shape(), v.dtype()), phi_q = features(q, Side::query),
                                        phi_k = features(k, Side::key);
  with_real(v.dtype(), "delta_step", [&](auto zero) {
    using T = decltype(zero);
    kernels<T>(context().device)
        .delta_step(context(), phi_q.data<T>(), phi_k.data<T>(), v.data<T>(), beta.data<T>(),
                    state.state.data<Accumulator<T>>(), y.data<T>(), P, F, M);
  });
  return y;
}

Var delta_quadratic(const std::shared_ptr<const FeatureMap>& map, const Var& q, const Var& k,
                    const Var& v, const Var& beta, const AttentionMask& mask) {
  checked("delta_quadratic", q, k, v, beta, mask.causal, mask.valid);
  const auto features = [&](const Var& x, Side side) {
    const Var rows = apply_features(map, x, side).rows;
    return map->kind() == FeatureKind::logs ? softmax(rows) : normalize(rows);
  };
  const Var Q = features(q, Side::query), K = features(clear_padding(k, mask.valid), Side::key);
  const Var V = clear_padding(v, mask.valid), b = clear_padding(beta, mask.valid);
  const Var L =
      multiply(repeat(b, k.size(2)), matmul(K, K, false, true));  // read below its diagonal only
  const Var X = solve_unit_lower(L, multiply(repeat(b, v.size(-1)), V));
  return matmul(mask_causal(matmul(Q, K, false, true), 0.0), X);
}

}  // namespace linea
