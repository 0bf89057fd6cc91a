#include "tests/cuda/chunk_problem.h"

namespace linea::cuda_tests {
namespace {

struct Setting {
  FeatureKind kind;
  bool causal, weights, decays, padded;
  double stddev = 1.0, lost = 0;
  int64_t N = 21, F = 9;
};

template <typename T>
std::vector<Tensor> matrix_and_gradients(const Setting& s) {
  const int64_t P = 4, heads = 2;
  const Tensor q = features<T>({P, s.N, s.F}, 1, s.kind, KernelFeature::given, s.stddev, 0);
  const Tensor k = features<T>({P, s.N, s.F}, 2, s.kind, KernelFeature::given, s.stddev, s.lost);
  const Tensor weight = input<T>({P, s.N}, 3, s.stddev), decay = negative<T>({P, s.N}, 4, s.stddev);
  const Tensor valid = Tensor::from(std::vector<int32_t>{static_cast<int32_t>(s.N / 2), 0}, {2});
  ChunkShape shape{P, s.N, s.F, 0, s.N};
  shape.kind = s.kind;
  if (s.padded) shape.valid = {valid.data<int32_t>(), heads, 0};
  ChunkInput<T> in;
  in.q = head_rows<const T>(q.data<T>(), s.N, s.F);
  in.k = head_rows<const T>(k.data<T>(), s.N, s.F);
  if (s.weights) in.weight = {weight.data<T>(), s.N};
  if (s.decays) in.decay = {decay.data<T>(), s.N};
  const Shape square{P, s.N, s.N};
  const Tensor matrix(square, q.dtype()), dmatrix = input<T>(square, 5);
  const Tensor dq(q.shape(), q.dtype()), dk(k.shape(), q.dtype()),
      dweight(weight.shape(), q.dtype()), ddecay(decay.shape(), q.dtype());
  table<T>().attention_matrix(context(), shape, in, s.causal, matrix.template data<T>());
  table<T>().attention_matrix_backward(context(), shape, in, s.causal, dmatrix.template data<T>(),
                                       dq.template data<T>(), dk.template data<T>(),
                                       dweight.template data<T>(), ddecay.template data<T>());
  return {matrix, dq, dk, dweight, ddecay};
}

TEST(CudaAttentionMatrix, EverySetting) {
  for (const FeatureKind kind : {FeatureKind::values, FeatureKind::logs})
    for (const bool causal : {false, true})
      for (const bool weights : {false, true})
        for (const bool decays : {false, true})
          for (const bool padded : {false, true}) {
            if (a_share() && padded != weights) continue;
            expect_parity([&](auto t) {
              return matrix_and_gradients<decltype(t)>({kind, causal, weights, decays, padded});
            });
          }
}

TEST(CudaAttentionMatrix, FarLogsAndLostOnes) {
  for (const double lost : {0.0, 0.5, 1.0})
    expect_parity([&](auto t) {
      return matrix_and_gradients<decltype(t)>(
          {FeatureKind::logs, true, true, true, false, 300.0, lost});
    });
}

TEST(CudaAttentionMatrix, MoreKeysAndFeaturesThanThreads) {
  for (const FeatureKind kind : {FeatureKind::values, FeatureKind::logs})
    expect_parity([&](auto t) {
      return matrix_and_gradients<decltype(t)>({kind, true, false, true, true, 1.0, 0,
                                                kind == FeatureKind::logs ? 40 : 261,
                                                kind == FeatureKind::logs ? 300 : 5});
    });
}

TEST(CudaAttentionMatrix, OneRow) {
  expect_parity([&](auto t) {
    return matrix_and_gradients<decltype(t)>(
        {FeatureKind::logs, true, true, true, false, 1.0, 0, 1, 1});
  });
}

}  // namespace
}  // namespace linea::cuda_tests
