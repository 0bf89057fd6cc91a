#include "bench/memory_comparison.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea::memory_comparison {
namespace {

constexpr int64_t kChunk = 64, kSegment = 1024;  // positions

// y = exp(x);  dx = y dy
Var exponential(const Var& x) {
  const Tensor y(x.shape(), x.dtype());
  with_real(x.dtype(), "exponential", [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.value().data<T>();
    std::transform(from, from + y.numel(), y.data<T>(), [](T value) { return std::exp(value); });
  });
  return Var::from_op("exponential", y, {x}, [y](const Tensor& dy) -> std::vector<Gradient> {
    return {ops::multiply(y, dy)};
  });
}

// y_m = x_m / x_M, m < M, of rows of M + 1 numbers;  dx_m = dy_m / x_M, dx_M = -sum_m dy_m y_m /
// x_M
Var divided(const Var& x) {
  const int64_t M = x.size(-1) - 1, rows = x.value().numel() / (M + 1);
  const Tensor y(x.shape().with(-1, M), x.dtype());
  return with_real(x.dtype(), "divided", [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = x.value().data<T>() + row * (M + 1);
      std::transform(from, from + M, y.data<T>() + row * M,
                     [&](T value) { return value / from[M]; });
    }
    return Var::from_op("divided", y, {x},
                        [x = x.value(), y, M, rows](const Tensor& dy) -> std::vector<Gradient> {
                          const Tensor dx(x.shape(), x.dtype());
                          for (int64_t row = 0; row < rows; ++row) {
                            const T *grad = dy.data<T>() + row * M, *result = y.data<T>() + row * M;
                            T *to = dx.data<T>() + row * (M + 1),
                              denominator = x.data<T>()[row * (M + 1) + M], sum = 0;
                            for (int64_t m = 0; m < M; ++m) {
                              to[m] = grad[m] / denominator;
                              sum += grad[m] * result[m];
                            }
                            to[M] = -sum / denominator;
                          }
                          return {dx};
                        });
  });
}

// Parts [n,...] one after the other on the outermost axis;  each gets its rows of dy
Var stack(const std::vector<Var>& parts) {
  int64_t length = 0;
  for (const Var& part : parts) length += part.size(0);
  const Tensor y(parts[0].shape().with(0, length), parts[0].dtype());
  std::vector<int64_t> firsts = {0};
  for (const Var& part : parts) {
    ops::copy_into(part.value(), y.rows(firsts.back(), part.size(0)));
    firsts.push_back(firsts.back() + part.size(0));
  }
  return Var::from_op("stack", y, parts, [firsts](const Tensor& dy) {
    std::vector<Gradient> gradients;
    for (size_t i = 0; i + 1 < firsts.size(); ++i)
      gradients.emplace_back(dy.rows(firsts[i], firsts[i + 1] - firsts[i]));
    return gradients;
  });
}

// x [n,H,W] -> [H,n,W], and back
Var heads_first(const Var& x) {
  const int64_t n = x.size(0), H = x.size(1), W = x.size(2);
  return reshape(split_heads(reshape(x, {1, n, H * W}), 1, H), {H, n, W});
}
Var positions_first(const Var& x) {
  const int64_t H = x.size(0), n = x.size(1), W = x.size(2);
  return reshape(merge_heads(reshape(x, {1, H, n, W})), {n, H, W});
}

// [v, 1]: the denominator is one more value.
Var with_ones(const Var& v) {
  const int64_t M = v.size(-1);
  std::vector<double> identity(static_cast<size_t>(M * (M + 1)), 0.0),
      last(static_cast<size_t>(M + 1), 0.0);
  for (int64_t m = 0; m < M; ++m) identity[static_cast<size_t>(m * (M + 2))] = 1;
  last.back() = 1;
  const Tensor into({M, M + 1}, v.dtype()), one({M + 1}, v.dtype());
  write_values(identity, into);
  write_values(last, one);
  return add_rows(matmul(v, Var(into)), Var(one));
}

// phi of rows x [H,n,D] -> [H,n,F].
class Phi {
 public:
  explicit Phi(const AttentionOptions& options) : attention_(make_attention(options)) {
    const std::vector<Buffer> buffers = attention_->buffers();
    if (!buffers.empty()) omega_ = Var(buffers.front().tensor);
  }

  // elu(x) + 1; or exp(omega.x^ - |x^|^2 / 2), x^ = x / D^(1/4), without the last term for a query,
  // where it cancels.
  Var operator()(const Var& x, bool key) const {
    if (!omega_.defined()) return pointwise(Pointwise::feature_elu, x);
    const auto D = static_cast<double>(x.size(2));
    const Var u = scale(matmul(x, omega_, false, true), std::pow(D, -0.25));
    if (!key) return exponential(u);
    const Tensor halves = Tensor::full({x.size(2), omega_.size(1)}, x.dtype(), -0.5 / std::sqrt(D));
    return exponential(add(u, matmul(multiply(x, x), Var(halves))));
  }

 private:
  std::shared_ptr<Attention> attention_;
  Var omega_;  // [H,F,D]
};

// S_t = S_{t-1} + phi(k_t) [v_t, 1]^T     [y_t d, d] = phi(q_t) S_t
Var position_by_position(const Phi& phi, const Var& q, const Var& k, const Var& v) {
  const Var phi_q = positions_first(phi(heads_first(q), false)),
            phi_k = positions_first(phi(heads_first(k), true));
  const Var values = with_ones(v);
  const int64_t N = q.size(0), H = q.size(1), F = phi_q.size(2), W = values.size(2);
  Var S;
  std::vector<Var> rows_of_y;
  for (int64_t t = 0; t < N; ++t) {
    const Var written =
        matmul(reshape(select(phi_k, t), {H, F, 1}), reshape(select(values, t), {H, 1, W}));
    S = S.defined() ? add(S, written) : written;
    rows_of_y.push_back(reshape(matmul(reshape(select(phi_q, t), {H, 1, F}), S), {1, H, W}));
  }
  return divided(stack(rows_of_y));
}

// With a chunk's rows Q, K, V, and S the state before it, undefined where it is 0:
//   [Y d, d] = lower(phi(Q) phi(K)^T) [V, 1] + phi(Q) S        state after: S + phi(K)^T [V, 1]
Var chunk_by_chunk(const Phi& phi, const Var& q, const Var& k, const Var& v, Var& S) {
  std::vector<Var> rows_of_y;
  for (int64_t first = 0; first < q.size(0); first += kChunk) {
    const int64_t count = std::min(kChunk, q.size(0) - first);
    const Var phi_q = phi(heads_first(rows(q, first, count)), false);
    const Var phi_k = phi(heads_first(rows(k, first, count)), true);
    const Var values = heads_first(with_ones(rows(v, first, count)));
    Var y = matmul(mask_causal(matmul(phi_q, phi_k, false, true), 0), values);
    if (S.defined()) y = add(y, matmul(phi_q, S));
    const Var written = matmul(phi_k, values, true);
    S = S.defined() ? add(S, written) : written;
    rows_of_y.push_back(positions_first(y));
  }
  return divided(stack(rows_of_y));
}

Var inner_product(const Var& a, const Tensor& b) {
  return matmul(reshape(a, {1, b.numel()}), Var(b.reshape({b.numel(), 1})));
}

// Forward: y, and the states between segments. Backward, from the last segment on: its forward pass
// again, on a tape of its own, from the state before it; dS, the gradient of the state after it, is
// what the later segments gave.
//   d(q, k, v, S before) of  y.dy + (S after).dS
Results by_segments(const Phi& phi, const Inputs& in) {
  const int64_t N = in.q.size(0);
  const auto new_like = [](const Tensor& x) { return Tensor(x.shape(), x.dtype()); };
  const Results out{new_like(in.dy), new_like(in.q), new_like(in.k), new_like(in.v)};
  const auto part = [&](const Tensor& x, int64_t first) {
    return x.rows(first, std::min(kSegment, N - first));
  };
  std::vector<Tensor> before;
  {
    const NoGrad no_grad;
    Var S;
    for (int64_t first = 0; first < N; first += kSegment) {
      before.push_back(S.defined() ? S.value() : Tensor());
      const auto of = [&](const Tensor& x) { return Var(part(x, first)); };
      ops::copy_into(chunk_by_chunk(phi, of(in.q), of(in.k), of(in.v), S).value(),
                     part(out.y, first));
    }
  }
  Tensor dS;
  for (int64_t first = (N - 1) / kSegment * kSegment; first >= 0; first -= kSegment) {
    const Var q(part(in.q, first), true), k(part(in.k, first), true), v(part(in.v, first), true);
    const Var start = before.back().defined() ? Var(before.back(), true) : Var();
    before.pop_back();
    Var S = start, objective = inner_product(chunk_by_chunk(phi, q, k, v, S), part(in.dy, first));
    if (dS.defined()) objective = add(objective, inner_product(S, dS));
    backward(objective);
    if (start.defined()) dS = start.grad();
    ops::copy_into(q.grad(), part(out.dq, first));
    ops::copy_into(k.grad(), part(out.dk, first));
    ops::copy_into(v.grad(), part(out.dv, first));
  }
  return out;
}

template <typename Forward>
Results on_one_tape(const Inputs& in, const Forward& forward) {
  const Var q(in.q, true), k(in.k, true), v(in.v, true);
  const Var y = forward(q, k, v);
  backward(y, in.dy);
  return {y.value(), q.grad(), k.grad(), v.grad()};
}

Tensor moved(const Tensor& x) {
  return heads_first(Var(x)).value().reshape({1, x.size(1), x.size(0), x.size(2)});
}

}  // namespace

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {Way::all_states, Way::chunk_states, Way::segments,
                                       Way::recomputed};
  return all;
}

std::string name_of(Way way) {
  switch (way) {
    case Way::all_states:
      return "naive autograd (every state saved)";
    case Way::chunk_states:
      return "chunk states saved";
    case Way::segments:
      return "segment by segment";
    case Way::recomputed:
      return "recomputed (Linea)";
  }
  return "";
}

Inputs Inputs::heads_first() const { return {moved(q), moved(k), moved(v), moved(dy)}; }
Results Results::heads_first() const { return {moved(y), moved(dq), moved(dk), moved(dv)}; }

Results compute(Way way, const AttentionOptions& options, const Inputs& in) {
  if (way == Way::recomputed) {
    const std::unique_ptr<Attention> attention = make_attention(options);
    return on_one_tape(in, [&](const Var& q, const Var& k, const Var& v) {
      return attention->forward({q, k, v, Var()}, {});
    });
  }
  const Phi phi(options);
  if (way == Way::segments) return by_segments(phi, in);
  return on_one_tape(in, [&](const Var& q, const Var& k, const Var& v) {
    Var S;
    return way == Way::all_states ? position_by_position(phi, q, k, v)
                                  : chunk_by_chunk(phi, q, k, v, S);
  });
}

double state_bytes(Way way, const AttentionOptions& options, int64_t N) {
  const std::vector<Buffer> buffers = make_attention(options)->buffers();  // omega [H,F,D]
  const int64_t F = buffers.empty() ? options.key_size : buffers.front().tensor.size(1);
  const int64_t state = options.heads * F * (options.value_size + 1);
  const int64_t counts[] = {N, (N + kChunk - 1) / kChunk, (N + kSegment - 1) / kSegment, 1};
  return static_cast<double>(state * counts[static_cast<size_t>(way)]) *
         static_cast<double>(size_of(options.dtype));
}

}  // namespace linea::memory_comparison
