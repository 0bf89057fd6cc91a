#include "tests/cuda/chunk_problem.h"

namespace linea::cuda_tests {
namespace {

struct Setting {
  int64_t N, F, M, segment;
  bool padded = false, decays = false;
  double stddev = 1.0;
};

// Rows divided by their sums, as the delta rule takes them; in a sum's rounding they differ from
// type to type.
template <typename T>
Tensor shares(const Shape& shape, uint32_t lane) {
  const std::vector<double> x = input<double>(shape, lane).to_doubles();
  const int64_t F = shape[shape.rank() - 1];
  std::vector<T> result;
  for (size_t i = 0; i < x.size(); ++i) {
    double sum = 0;
    for (int64_t f = 0; f < F; ++f) sum += std::abs(x[i / F * F + f]);
    result.push_back(static_cast<T>(static_cast<float>(BFloat16(std::abs(x[i]) / sum))));
  }
  return Tensor::from(result, shape);
}

template <typename T>
Tensor gates(const Shape& shape, uint32_t lane) {
  std::vector<T> result;
  for (const double x : input<double>(shape, lane).to_doubles())
    result.push_back(static_cast<T>(static_cast<float>(BFloat16(1 / (1 + std::exp(-2 * x))))));
  return Tensor::from(result, shape);
}

// Logs of decays, some of which forget all; 0 where padded.
template <typename T>
Tensor log_decays(const Shape& shape, const std::vector<int32_t>& keys, int64_t heads) {
  const int64_t N = shape[1];
  std::vector<T> result;
  for (const double x : input<double>(shape, 8).to_doubles()) {
    const auto i = static_cast<int64_t>(result.size());
    const bool padded = i % N >= keys[i / N / heads];
    result.push_back(static_cast<T>(padded ? 0 : i % 17 == 5 ? -100 : -0.125 * std::abs(x)));
  }
  return Tensor::from(result, shape);
}

template <typename T>
std::vector<Tensor> sweep(const Setting& s) {
  using A = Accumulator<T>;
  const int64_t heads = 2, P = 4;
  const Tensor v = input<T>({P, s.N, s.M}, 3, s.stddev), dy = input<T>({P, s.N, s.M}, 4),
               beta = gates<T>({P, s.N}, 5);
  std::vector<int32_t> keys(2, static_cast<int32_t>(s.N));
  if (s.padded) keys = {static_cast<int32_t>(s.N - s.N / 3), static_cast<int32_t>(s.N / 9)};
  const Tensor valid = Tensor::from(keys, {2}), log_decay = log_decays<T>({P, s.N}, keys, heads);
  const Tensor state = input<A>({P, s.F, s.M}, 6), dstate = input<A>({P, s.F, s.M}, 7);
  const Tensor y(v.shape(), v.dtype()), dv(v.shape(), v.dtype()), dbeta(beta.shape(), v.dtype()),
      dL = Tensor::zeros(beta.shape(), v.dtype());
  std::vector<Tensor> result, states, grads;
  const auto shape_of = [&](int64_t first) {
    ChunkShape shape{P, std::min(s.segment, s.N - first), s.F, s.M, 48, first};
    if (s.padded) shape.valid = {valid.data<int32_t>(), heads, 0};
    return shape;
  };
  const auto strided = [&](const Tensor& x, int64_t width, int64_t first) {
    return Strided<T>{x.data<T>() + first * width, s.N * width};
  };
  const auto read = [](const Strided<T>& x) { return Strided<const T>{x.data, x.stride}; };
  const auto input_of = [&](const Tensor& q, const Tensor& k, int64_t first) {
    DeltaInput<T> in{q.data_or_null<T>(), k.data<T>(), read(strided(v, s.M, first)),
                     read(strided(beta, 1, first))};
    if (s.decays) in.log_decay = read(strided(log_decay, 1, first));
    return in;
  };
  for (int64_t first = 0; first < s.N; first += s.segment) {
    const ChunkShape shape = shape_of(first);
    const Tensor q = shares<T>({P, shape.length, s.F}, 100 + first),
                 k = shares<T>({P, shape.length, s.F}, 200 + first);
    states.push_back(state.clone());
    table<T>().delta_forward(context(), shape, input_of(q, k, first), state.template data<A>(),
                             strided(y, s.M, first));
    // without queries the same is absorbed
    const Tensor alone = states.back().clone();
    table<T>().delta_forward(context(), shape, input_of({}, k, first), alone.template data<A>(),
                             {});
    result.push_back(alone);
  }
  for (int64_t first = (s.N - 1) / s.segment * s.segment; first >= 0; first -= s.segment) {
    const ChunkShape shape = shape_of(first);
    const Tensor q = shares<T>({P, shape.length, s.F}, 100 + first),
                 k = shares<T>({P, shape.length, s.F}, 200 + first);
    const Tensor dq(q.shape(), v.dtype()), dk(q.shape(), v.dtype());
    table<T>().delta_backward(
        context(), shape, input_of(q, k, first), read(strided(dy, s.M, first)),
        states[first / s.segment].template data<A>(), dstate.template data<A>(),
        {dq.template data<T>(), dk.template data<T>(), strided(dv, s.M, first),
         strided(dbeta, 1, first), strided(dL, 1, first)});
    result.push_back(dq);
    result.push_back(dk);
  }
  for (const Tensor& x : {y, state, dstate, dv, dbeta, dL}) result.push_back(x);
  return result;
}

TEST(CudaDelta, SizesAndPadding) {
  for (const auto& [padded, decays] : {std::pair{false, false}, {true, false}, {true, true}})
    for (const Setting& s : {Setting{1, 5, 3, 10},
                             {63, 37, 70, 63},
                             {65, 64, 64, 65},
                             {150, 130, 9, 90},
                             {257, 12, 64, 128}}) {
      if (a_share() && !padded) continue;
      expect_real_parity(
          [&, padded = padded, decays = decays](auto t) {
            Setting mine = s;
            mine.padded = padded;
            mine.decays = decays;
            return sweep<decltype(t)>(mine);
          },
          {2e-5, 1e-11, 2e-2});
    }
}

// A value that overflows reaches no output before its own.
TEST(CudaDelta, OverflowIsCausal) {
  const On device(kCuda);
  const int64_t N = 64, F = 8, M = 4, at = 30;
  std::vector<float> values(N * M, 0.5f);
  for (int64_t m = 0; m < M; ++m) values[at * M + m] = INFINITY;
  const Tensor q = shares<float>({1, N, F}, 1), k = shares<float>({1, N, F}, 2),
               v = Tensor::from(values, {1, N, M});
  const Tensor beta = gates<float>({1, N}, 3), y({1, N, M}, DType::f32),
               state = Tensor::zeros({1, F, M}, DType::f32);
  ChunkShape shape{1, N, F, M, 64};
  table<float>().delta_forward(
      context(), shape,
      {q.data<float>(), k.data<float>(), {v.data<float>(), N * M}, {beta.data<float>(), N}},
      state.data<float>(), {y.data<float>(), N * M});
  const std::vector<float> got = y.to_vector<float>();
  for (int64_t i = 0; i < N * M; ++i) EXPECT_EQ(std::isfinite(got[i]), i < at * M) << i;
}

TEST(CudaDelta, Steps) {
  for (const int64_t F : {1, 37, 300})
    for (const int64_t M : {3, 64, 70})
      expect_real_parity([&](auto t) {
        using T = decltype(t);
        using A = Accumulator<T>;
        const int64_t P = 5;
        const Tensor state = input<A>({P, F, M}, 6);
        std::vector<Tensor> result{state};
        for (uint32_t step = 0; step < 3; ++step) {
          const Tensor q = shares<T>({P, F}, 10 + step), k = shares<T>({P, F}, 20 + step),
                       v = input<T>({P, M}, 30 + step);
          const Tensor beta = gates<T>({P}, 40 + step), y({P, M}, q.dtype()),
                       log_decay = log_decays<T>({1, P}, {P}, 1);
          table<T>().delta_step(context(), {P, 1, F, M, 1},
                                {q.template data<T>(),
                                 k.template data<T>(),
                                 {v.template data<T>(), M},
                                 {beta.template data<T>(), 1},
                                 {step == 0 ? nullptr : log_decay.template data<T>(), 1}},
                                state.template data<A>(), y.template data<T>());
          result.push_back(y);
        }
        return result;
      });
}

// The diagonal and what is above it are not read.
TEST(CudaDelta, SolvesUnitLowerSystems) {
  for (const bool transpose : {false, true})
    for (const int64_t N : {1, 5, 64, 65, 200})
      for (const int64_t M : {1, 70})
        expect_real_parity([&](auto t) {
          using T = decltype(t);
          const int64_t P = 3;
          std::vector<T> l = input<T>({P, N, N}, 1, 0.0625).template to_vector<T>();
          for (int64_t i = 0; i < P * N * N; ++i)
            if (i % N >= i / N % N) l[i] = T(NAN);
          const Tensor lower = Tensor::from(l, {P, N, N}), e = input<T>({P, N, M}, 2),
                       x(e.shape(), e.dtype());
          table<T>().solve_unit_lower(context(), lower.template data<T>(), e.template data<T>(),
                                      x.template data<T>(), transpose, P, N, M);
          return std::vector<Tensor>{x};
        });
}

}  // namespace
}  // namespace linea::cuda_tests
