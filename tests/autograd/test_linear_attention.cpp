// The chunked form against loops written from the formula, at sizes that cut the work in every way.
#include "autograd/linear_attention.h"
#include "nn/attention.h"
#include "nn/feature_map.h"

#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "tensor/context.h"

namespace linea {
namespace {

struct Problem {
  int64_t B, H, N, D, M;
  Tensor q, k, v, dy;
};

Problem problem(int64_t B, int64_t H, int64_t N, int64_t D, int64_t M) {
  return {B,
          H,
          N,
          D,
          M,
          random_tensor({B, H, N, D}, 21),
          random_tensor({B, H, N, D}, 22),
          random_tensor({B, H, N, M}, 23),
          random_tensor({B, H, N, M}, 24)};
}

// y_i = sum_j a_ij v_j / sum_j a_ij, a_ij = phi(q_i).phi(k_j)
Tensor by_loops(const FeatureMap& map, const Problem& p, bool causal,
                const std::vector<int64_t>& valid) {
  const Tensor rows_q = p.q.reshape({p.B * p.H, p.N, p.D}),
               rows_k = p.k.reshape({p.B * p.H, p.N, p.D});
  const std::vector<double> q = map.forward(rows_q, Side::query, {0, p.H}).rows.to_doubles();
  const std::vector<double> k = map.forward(rows_k, Side::key, {0, p.H}).rows.to_doubles();
  const std::vector<double> v = p.v.to_doubles();
  std::vector<double> y(v.size(), 0.0);
  const int64_t F = map.features(p.D);
  const auto at = [](const std::vector<double>& x, int64_t i) { return x[static_cast<size_t>(i)]; };
  for (int64_t pair = 0; pair < p.B * p.H; ++pair) {
    for (int64_t i = 0; i < p.N; ++i) {
      double total = 0;
      double* row = &y[static_cast<size_t>((pair * p.N + i) * p.M)];
      int64_t seen = causal ? i + 1 : p.N;
      if (!valid.empty()) seen = std::min(seen, valid[static_cast<size_t>(pair / p.H)]);
      for (int64_t j = 0; j < seen; ++j) {
        double a = 0;
        for (int64_t f = 0; f < F; ++f)
          a += at(q, (pair * p.N + i) * F + f) * at(k, (pair * p.N + j) * F + f);
        total += a;
        for (int64_t m = 0; m < p.M; ++m) row[m] += a * at(v, (pair * p.N + j) * p.M + m);
      }
      for (int64_t m = 0; m < p.M; ++m) row[m] = total == 0 ? 0.0 : row[m] / total;
    }
  }
  return Tensor::from(y, p.v.shape());
}

struct Result {
  Tensor y, dq, dk, dv;
};

Result chunked_form(const std::shared_ptr<const FeatureMap>& map, const Problem& p,
                    const LinearAttentionOptions& options) {
  const Var q(p.q, true), k(p.k, true), v(p.v, true);
  const Var y = linear_attention(map, {q, k, v, Var()}, {}, options);
  backward(y, p.dy);
  return {y.value(), q.grad(), k.grad(), v.grad()};
}

TEST(LinearAttention, MatchesTheFormulaForEverySplit) {
  const std::shared_ptr<const FeatureMap> map = make_feature_map("elu", 1);
  const Problem p = problem(2, 2, 53, 3, 4);
  const std::vector<int64_t> counts = {29, 53};
  const Tensor valid = Tensor::from(std::vector<int32_t>{29, 53}, {2});
  for (const bool causal : {true, false}) {
    for (const bool padded : {true, false}) {
      const Tensor all = padded ? valid : Tensor();
      const Tensor expected = by_loops(*map, p, causal, padded ? counts : std::vector<int64_t>{});
      const Result whole = chunked_form(map, p, {causal, all, 0, 0});
      for (const int64_t segment : {1, 2, 7, 29, 52, 53, 100}) {
        for (const int64_t chunk : {1, 3, 7, 64}) {
          const Result cut = chunked_form(map, p, {causal, all, segment, chunk});
          EXPECT_LE(relative_error(cut.y, expected), 1e-13) << segment << " " << chunk;
          EXPECT_LE(relative_error(cut.dq, whole.dq), 1e-12) << segment << " " << chunk;
          EXPECT_LE(relative_error(cut.dk, whole.dk), 1e-12) << segment << " " << chunk;
          EXPECT_LE(relative_error(cut.dv, whole.dv), 1e-12) << segment << " " << chunk;
        }
      }
    }
  }
}

// More (batch, head) pairs than one tile holds, the last tile not full, several segments.
TEST(LinearAttention, ManyTiles) {
  const std::shared_ptr<const FeatureMap> map = make_feature_map("elu", 1);
  const Problem p = problem(5, 7, 270, 16, 3);
  const int before = context().threads;
  for (const int threads : {1, 2}) {
    set_threads(threads);
    for (const bool causal : {true, false}) {
      const Result found = chunked_form(map, p, {causal, {}, 0, 0});
      EXPECT_LE(relative_error(found.y, by_loops(*map, p, causal, {})), 1e-13);
    }
  }
  set_threads(before);
}

// Fewer (batch, head) pairs than threads.
TEST(LinearAttention, ThreadsChangeNoBitOfOneHead) {
  const std::shared_ptr<const FeatureMap> map = make_feature_map("elu", 1);
  const Problem p = problem(1, 1, 600, 16, 3);
  const int before = context().threads;
  for (const bool causal : {true, false}) {
    set_threads(1);
    const Result one = chunked_form(map, p, {causal, {}, 0, 0});
    set_threads(3);
    const Result three = chunked_form(map, p, {causal, {}, 0, 0});
    EXPECT_EQ(three.y.to_doubles(), one.y.to_doubles());
    EXPECT_EQ(three.dq.to_doubles(), one.dq.to_doubles());
    EXPECT_EQ(three.dk.to_doubles(), one.dk.to_doubles());
    EXPECT_EQ(three.dv.to_doubles(), one.dv.to_doubles());
  }
  set_threads(before);
}

TEST(LinearAttention, EmptyInput) {
  const std::shared_ptr<const FeatureMap> map = make_feature_map("elu", 1);
  EXPECT_EQ(chunked_form(map, problem(2, 3, 0, 5, 7), {}).y.shape(), (Shape{2, 3, 0, 7}));
  EXPECT_EQ(chunked_form(map, problem(0, 3, 4, 5, 7), {}).dk.shape(), (Shape{0, 3, 4, 5}));
}

// A row whose weights are all exactly 0 has the output 0 and no gradient, in all forms.
TEST(LinearAttention, RowsWithZeroWeightAreZero) {
  const std::shared_ptr<const FeatureMap> map = make_feature_map("dpfp", 1);
  Problem p = problem(1, 1, 3, 2, 2);
  p.q = Tensor::from(std::vector<double>{1, 2, -1, -2, 1, 2}, p.q.shape());
  p.k = Tensor::from(std::vector<double>{-1, -2, -1, -2, -1, -2}, p.k.shape());  // meets only q_1
  const Result found = chunked_form(map, p, {});
  const std::vector<double> y = found.y.to_doubles(), dq = found.dq.to_doubles();
  for (const size_t i : {0, 1, 4, 5}) {
    EXPECT_EQ(y[i], 0.0);
    EXPECT_EQ(dq[i], 0.0);
  }
  EXPECT_NE(y[2], 0.0);
  AttentionOptions options;
  options.key_size = options.value_size = 2;
  const std::unique_ptr<LinearState> state = std::make_unique<LinearState>(
      *map, 1, options.heads, options.key_size, options.value_size, DType::f64, false);
  const auto first_of = [](const Tensor& x) {
    return Var(x.reshape({3, 2}).rows(0, 1).reshape({1, 1, 1, 2}));
  };
  const Tensor first =
      linear_step(*map, *state, {first_of(p.q), first_of(p.k), first_of(p.v), Var()}, {});
  EXPECT_EQ(first.to_doubles(), (std::vector<double>{0, 0}));
}

// A sum of small equal terms, added to a large one by one in float, drifts: the mean of 1 must
// stay 1.
TEST(LinearAttention, LongSumsDoNotDrift) {
  const std::shared_ptr<const FeatureMap> map = make_feature_map("relu", 1);
  const int64_t N = 40000;
  std::vector<float> keys(static_cast<size_t>(N), -1.0f);  // phi = 1e-3
  for (size_t j = 0; j < 5000; ++j) keys[j] = 4.0f;
  const Tensor k = Tensor::from(keys, {1, 1, N, 1}),
               one = Tensor::full({1, 1, N, 1}, DType::f32, 1.0);
  const Var y = linear_attention(map, {Var(k), Var(k), Var(one), Var()}, {}, {});
  for (const float value : y.value().to_vector<float>()) ASSERT_NEAR(value, 1.0f, 2e-6f);
}

TEST(LinearAttention, ErrorsNameWhatDoesNotFit) {
  const std::shared_ptr<const FeatureMap> map = make_feature_map("elu", 1);
  const auto message = [&](const Shape& q, const Shape& k, const Shape& v, const Tensor& valid,
                           DType dtype = DType::f64, const Tensor& gate = {},
                           bool causal = true) -> std::string {
    try {
      linear_attention(map,
                       {Var(Tensor::zeros(q, DType::f64)), Var(Tensor::zeros(k, dtype)),
                        Var(Tensor::zeros(v, DType::f64)), Var()},
                       {.log_decay = gate.defined() ? Var(gate) : Var()}, {causal, valid, 0, 0});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const Shape keys{2, 3, 5, 4}, values{2, 3, 5, 6};
  EXPECT_EQ(message(keys, keys, values, {}), "no error");
  EXPECT_NE(message({2, 3, 4}, keys, values, {}).find("[2,3,4]"), std::string::npos);
  EXPECT_NE(
      message(keys, {2, 3, 6, 4}, values, {}).find("k has shape [2,3,6,4], expected [2,3,5,4]"),
      std::string::npos);
  EXPECT_NE(message(keys, keys, {2, 3, 7, 6}, {}).find("v has shape [2,3,7,6]"), std::string::npos);
  EXPECT_NE(message(keys, keys, values, {}, DType::f32).find("f64 and f32"), std::string::npos);
  EXPECT_NE(message(keys, keys, values, Tensor::zeros({3}, DType::i32))
                .find("valid has shape [3], expected [2]"),
            std::string::npos);
  const Tensor gate = Tensor::full({2, 3, 5}, DType::f64, -0.5);
  EXPECT_EQ(message(keys, keys, values, {}, DType::f64, gate), "no error");
  EXPECT_NE(message(keys, keys, values, {}, DType::f64, gate, false).find("must be causal"),
            std::string::npos);
  EXPECT_NE(message(keys, keys, values, {}, DType::f64, Tensor::zeros({2, 3, 6}, DType::f64))
                .find("log_decay has shape"),
            std::string::npos);
}

}  // namespace
}  // namespace linea
