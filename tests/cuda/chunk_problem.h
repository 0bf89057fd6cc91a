// Inputs of the sum rule's kernels, alike on every device.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "tests/cuda/parity.h"

namespace linea::cuda_tests {

// Features as they are given: values at or above 0 (of any sign where a kernel makes features of
// them), or logs of which the share `lost` is -infinity.
template <typename T>
Tensor features(const Shape& shape, uint32_t lane, FeatureKind kind, KernelFeature feature,
                double stddev, double lost) {
  const Tensor x = input<T>(shape, lane, stddev), coin = input<T>(shape, lane + 1000);
  std::vector<double> values = x.to_doubles(), toss = coin.to_doubles();
  std::vector<T> result;
  for (size_t i = 0; i < values.size(); ++i) {
    double value = values[i];
    if (kind == FeatureKind::values && feature == KernelFeature::given) value = std::abs(value);
    const double below = 0.5 * std::erfc(-toss[i] / std::sqrt(2.0));
    if (kind == FeatureKind::logs && below < lost) value = -std::numeric_limits<double>::infinity();
    result.push_back(static_cast<T>(static_cast<float>(value)));
  }
  return Tensor::from(result, shape);
}

template <typename T>
Tensor negative(const Shape& shape, uint32_t lane, double stddev) {
  std::vector<T> result;
  for (const double x : input<T>(shape, lane, stddev).to_doubles())
    result.push_back(static_cast<T>(static_cast<float>(-std::abs(x))));
  return Tensor::from(result, shape);
}

// S, z and their scales, starting with nothing.
template <typename T>
struct StateAccumulator {
  using A = Accumulator<T>;
  StateAccumulator(int64_t pairs, int64_t F, int64_t M, bool scaled)
      : state(Tensor::zeros({pairs, F, M}, dtype_of(A{}))),
        key_sum(Tensor::zeros({pairs, F}, dtype_of(A{}))) {
    if (scaled)
      scale = Tensor::full({pairs, F}, dtype_of(A{}), -std::numeric_limits<double>::infinity());
  }
  ChunkState<A> view() const {
    return {state.template data<A>(), key_sum.template data<A>(),
            scale.defined() ? scale.template data<A>() : nullptr};
  }
  std::vector<Tensor> sums() const {
    if (!scale.defined()) return {state, key_sum};
    return {state, key_sum, scale};
  }
  Tensor state, key_sum, scale;
};

// One call of linear attention: P = 2 x 2 pairs, N positions in segments.
struct ChunkSetting {
  FeatureKind kind = FeatureKind::values;
  KernelFeature feature = KernelFeature::given;
  bool weights = false, decays = false, causal = true, padded = false;
  int64_t N = 65, F = 5, M = 3, segment = 1000;
  double stddev = 1.0, lost = 0;  // of logs; the share of those that are -infinity
  double weight_std = 1.0;
  bool hints = true;    // the kernels get which segment starts and which ends
  bool by_head = true;  // rows are in [B,N,H,width], else in [B,H,N,width]
  int64_t blocks = 0;   // how a GPU cuts its work (tensor/context.h)
  int64_t gap = 0;      // elements between rows, NaN in those of inputs
};

// How the context's device cuts its work, while it lives. (A device starts with sizes of its own.)
class Cut {
 public:
  explicit Cut(const ChunkSetting& s) : before_(context().sizes) {
    if (s.blocks > 0) context().sizes.blocks = s.blocks, context().sizes.cut = 0;
  }
  ~Cut() { context().sizes = before_; }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

 private:
  WorkSizes before_;
};

// Runs the kernels of the sum rule as the engine does, and gives what they make.
template <typename T>
class ChunkProblem {
 public:
  using A = Accumulator<T>;
  static constexpr int64_t kBatch = 2, kHeads = 2, kPairs = kBatch * kHeads;

  explicit ChunkProblem(const ChunkSetting& s)
      : s_(s),
        scaled_(s.kind == FeatureKind::logs || s.weights || s.decays),
        q_(spread(features<T>({kPairs, s.N, s.F}, 1, s.kind, s.feature, s.stddev, 0))),
        k_(spread(features<T>({kPairs, s.N, s.F}, 2, s.kind, s.feature, s.stddev, s.lost))),
        v_(spread(input<T>({kPairs, s.N, s.M}, 3))),
        dy_(spread(input<T>({kPairs, s.N, s.M}, 4))),
        weight_(input<T>({kPairs, s.N}, 5, s.weight_std)),
        decay_(negative<T>({kPairs, s.N}, 6, s.weight_std)),
        valid_(Tensor::from(std::vector<int32_t>{static_cast<int32_t>(s.N - s.N / 3),
                                                 static_cast<int32_t>(s.N / 9)},
                            {kBatch})),
        denominator_(Tensor::zeros({kPairs, s.N}, dtype_of(A{}))),
        scale_(Tensor::zeros({kPairs, s.N}, dtype_of(A{}))),
        denominator_grad_(Tensor::zeros({kPairs, s.N}, dtype_of(A{}))) {
    for (int64_t first = 0; first < s.N; first += s.segment) parts_.push_back(first);
    if (s.padded) spoil_padding();
  }

  // y and log d; the state where it is needed
  std::vector<Tensor> forward() {
    const StateAccumulator<T> running(kPairs, s_.F, s_.M, scaled_);
    const Tensor y = y_ = like(v_);
    sweep(false, [&](const ChunkShape& shape, bool with_q, bool with_k) {
      table<T>().chunk_forward(context(), shape, in(shape, with_q, with_k), running.view(),
                               rows<T>(y, shape, with_q), saved(shape));
    });
    std::vector<Tensor> result{y, logs_of_denominators()};
    if (!s_.hints)
      for (const Tensor& x : running.sums()) result.push_back(x);
    return result;
  }

  // After forward(): dq and e d
  std::vector<Tensor> backward_query() {
    const StateAccumulator<T> running(kPairs, s_.F, s_.M, scaled_);
    const Tensor dq = like(q_);
    sweep(false, [&](const ChunkShape& shape, bool with_q, bool with_k) {
      table<T>().chunk_backward_query(
          context(), shape, in(shape, with_q, with_k), rows<const T>(y_, shape, true),
          rows<const T>(dy_, shape, true), saved(shape), running.view(), rows<T>(dq, shape, with_q),
          strided<A>(denominator_grad_, shape));
    });
    return {dq, products(denominator_grad_, denominator_)};
  }

  // After backward_query(): dk, dv, dweight
  std::vector<Tensor> backward_key() {
    const StateAccumulator<T> running(kPairs, s_.F, s_.M, scaled_);
    const Tensor dk = like(k_), dv = like(v_), dweight = like(weight_);
    sweep(true, [&](const ChunkShape& shape, bool with_q, bool with_k) {
      table<T>().chunk_backward_key(
          context(), shape, in(shape, with_q, with_k), rows<const T>(dy_, shape, true),
          saved(shape), strided<const A>(denominator_grad_, shape), running.view(),
          rows<T>(dk, shape, with_k), scaled_ && with_k ? strided<T>(dweight, shape) : Strided<T>{},
          rows<T>(dv, shape, with_k));
    });
    return {dk, dv, dweight};
  }

  // After backward_query(), where logs of keys are those of hard codes: dk, straight through, of
  // `queries` [P,N,D].
  std::vector<Tensor> straight_through(const Tensor& codes, int64_t D) {
    const StateAccumulator<T> running(kPairs, s_.F, D * (s_.M + 1), true);
    const Tensor dk = Tensor::zeros({kPairs, s_.N, D}, v_.dtype());
    sweep(true, [&](const ChunkShape& shape, bool with_q, bool with_k) {
      // queries, codes and dk of a segment are in one piece
      const Tensor queries =
          input<T>({kPairs, shape.length, D}, 50 + static_cast<uint32_t>(shape.first));
      const Tensor grad = Tensor::zeros(queries.shape(), v_.dtype());
      const std::vector<int32_t> all = codes.to_vector<int32_t>();
      std::vector<int32_t> own;
      for (int64_t pair = 0; pair < kPairs; ++pair)
        for (int64_t i = 0; i < shape.length; ++i)
          own.push_back(all[pair * s_.N + shape.first + i]);
      const Tensor code = Tensor::from(own, {kPairs, shape.length});
      table<T>().straight_through(
          context(), shape, in(shape, with_q, with_k), with_q ? queries.data<T>() : nullptr,
          with_k ? code.data<int32_t>() : nullptr, D, rows<const T>(dy_, shape, true), saved(shape),
          strided<const A>(denominator_grad_, shape), running.view(),
          with_k ? grad.data<T>() : nullptr);
      if (!with_k) return;
      std::vector<T> into = dk.to_vector<T>(), from = grad.to_vector<T>();
      for (int64_t pair = 0; pair < kPairs; ++pair)
        std::copy_n(from.begin() + pair * shape.length * D, shape.length * D,
                    into.begin() + (pair * s_.N + shape.first) * D);
      dk.write(into.data());
    });
    return {dk};
  }

  std::vector<Tensor> all() {
    std::vector<Tensor> result = forward();
    for (const Tensor& x : backward_query()) result.push_back(beside_one(x));
    for (const Tensor& x : backward_key()) result.push_back(beside_one(x));
    return result;
  }

  Tensor k() const { return k_; }

  // The rows of x [P,N,width + gap] without what is between them.
  std::vector<double> without_gaps(const Tensor& x) const {
    const std::vector<double> all = x.to_doubles();
    if (x.shape().rank() < 3) return all;
    std::vector<double> result;
    for (int64_t e = 0; e < x.numel(); ++e)
      if (e % x.size(2) < x.size(2) - s_.gap) result.push_back(all[static_cast<size_t>(e)]);
    return result;
  }

  // Changes all keys and values from position `first` on.
  void change_from(int64_t first, double by) {
    for (const Tensor& x : {k_, v_, weight_})
      change(x, [&](int64_t, int64_t i, T value) {
        return i < first ? value : T(static_cast<float>(value) * by);
      });
  }

 private:
  // body(batch, position, number) becomes the number; of x [pairs,N,width] or [pairs,N].
  template <typename Body>
  void change(const Tensor& x, const Body& body) const {
    std::vector<T> values = x.to_vector<T>();
    const int64_t width = x.shape().rank() > 2 ? x.size(2) : 1;
    for (size_t e = 0; e < values.size(); ++e) {
      const int64_t row = static_cast<int64_t>(e) / width;
      const int64_t i = s_.by_head && x.shape().rank() > 2 ? row / kHeads % s_.N : row % s_.N;
      values[e] = body(row / (s_.N * kHeads), i, values[e]);
    }
    x.write(values.data());
  }

  // Keys that do not exist may be anything.
  void spoil_padding() {
    const std::vector<int32_t> count = valid_.to_vector<int32_t>();
    for (const Tensor& x : {k_, v_, weight_, decay_})
      change(x,
             [&](int64_t batch, int64_t i, T value) { return i < count[batch] ? value : T(NAN); });
  }

  Tensor spread(const Tensor& x) const {
    if (s_.gap == 0) return x;
    const int64_t width = x.size(2), row = width + s_.gap;
    const std::vector<T> from = x.to_vector<T>();
    std::vector<T> to(static_cast<size_t>(kPairs * s_.N * row), T(NAN));
    for (int64_t i = 0; i < kPairs * s_.N; ++i)
      std::copy_n(from.begin() + i * width, width, to.begin() + i * row);
    return Tensor::from(to, {kPairs, s_.N, row});
  }

  static Tensor like(const Tensor& x) { return Tensor::zeros(x.shape(), x.dtype()); }

  template <typename U>
  HeadRows<U> rows(const Tensor& x, const ChunkShape& shape, bool there) const {
    if (!there) return {};
    const int64_t width = x.size(2);
    const int64_t row = s_.by_head ? kHeads * width : width,
                  head = s_.by_head ? width : s_.N * width;
    return {x.data<std::remove_const_t<U>>() + shape.first * row,
            s_.N * kHeads * width,
            head,
            row,
            kHeads,
            0};
  }
  template <typename U>
  Strided<U> strided(const Tensor& x, const ChunkShape& shape) const {
    return {x.data<std::remove_const_t<U>>() + shape.first, s_.N};
  }

  ChunkInput<T> in(const ChunkShape& shape, bool with_q, bool with_k) const {
    ChunkInput<T> in;
    in.q = rows<const T>(q_, shape, with_q);
    in.k = rows<const T>(k_, shape, with_k);
    if (!with_k) return in;
    in.v = rows<const T>(v_, shape, true);
    if (s_.weights) in.weight = strided<const T>(weight_, shape);
    if (s_.decays) in.decay = strided<const T>(decay_, shape);
    return in;
  }

  ChunkRows<A> saved(const ChunkShape& shape) const {
    ChunkRows<A> rows{strided<A>(denominator_, shape), {}};
    if (scaled_) rows.scale = strided<A>(scale_, shape);
    return rows;
  }

  template <typename Visit>
  void sweep(bool reverse, const Visit& visit) const {
    const Cut cut(s_);
    std::vector<int64_t> parts = parts_;
    if (reverse) std::reverse(parts.begin(), parts.end());
    const auto shape_of = [&](int64_t first) {
      ChunkShape shape{kPairs, std::min(s_.segment, s_.N - first), s_.F, s_.M, 64, first};
      shape.kind = s_.kind;
      shape.feature = s_.feature;
      if (s_.padded) shape.valid = {valid_.data<int32_t>(), kHeads, 0};
      return shape;
    };
    if (!s_.causal)
      for (const int64_t first : parts) visit(shape_of(first), reverse, !reverse);
    for (const int64_t first : parts) {
      ChunkShape shape = shape_of(first);
      if (s_.causal && s_.hints) {
        shape.starts = first == parts.front();
        shape.ends = first == parts.back();
      }
      visit(shape, s_.causal || !reverse, s_.causal || reverse);
    }
  }

  // Gradients of a sequence of one position are 0 up to rounding: they are measured by 1.
  Tensor beside_one(const Tensor& x) const {
    if (s_.N > 1) return x;
    std::vector<double> values = x.to_doubles();
    values.push_back(1.0);
    const On cpu(Device{});
    return Tensor::from(values, {static_cast<int64_t>(values.size())});
  }

  // log d + m: one number whatever the scale, where chunks are as long (decays are counted from
  // their start)
  Tensor logs_of_denominators() const {
    std::vector<double> d = denominator_.to_doubles(), m = scale_.to_doubles();
    for (size_t i = 0; i < d.size(); ++i) d[i] = std::log(d[i]) + m[i];
    const On cpu(Device{});
    return Tensor::from(d, denominator_.shape());
  }
  static Tensor products(const Tensor& a, const Tensor& b) {
    std::vector<double> x = a.to_doubles(), y = b.to_doubles();
    for (size_t i = 0; i < x.size(); ++i) x[i] *= y[i];
    const On cpu(Device{});
    return Tensor::from(x, a.shape());
  }

  ChunkSetting s_;
  bool scaled_;
  Tensor q_, k_, v_, y_, dy_, weight_, decay_, valid_, denominator_, scale_, denominator_grad_;
  std::vector<int64_t> parts_;
};

}  // namespace linea::cuda_tests
