// Clusters of queries: limits, the bound of the improved form, decisions that are alike everywhere, and what known
// implementations leak.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "autograd/ops.h"
#include "autograd/prototypes.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention/hamming_clusters.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

using namespace conformance;

AttentionOptions clusters_of(const std::string& name, const Settings& settings, const Sizes& sizes,
                             DType dtype) {
  AttentionOptions options = options_of(name, sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = settings;
  return options;
}

const AttentionMask kNotCausal{false, {}};

Outcome softmax_of(const Inputs& x, const Sizes& sizes) {
  return run(*make_attention(
                 options_of("softmax", sizes.heads, sizes.key_size, sizes.value_size, DType::f64)),
             &Attention::forward, x, kNotCausal);
}

void expect_softmax(const Outcome& found, const Outcome& expected) {
  EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
  EXPECT_LE(gradient_error(found, expected), 1e-12);
}

TEST(Clustered, EachRowAClusterIsSoftmax) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const Outcome expected = softmax_of(x, sizes);
  const auto attention =
      make_attention(clusters_of("clustered", {{"clusters", int64_t{90}}}, sizes, DType::f64));
  std::vector<int32_t> own(90);
  std::iota(own.begin(), own.end(), 0);
  std::vector<int32_t> of_all;
  for (int bh = 0; bh < 4; ++bh) of_all.insert(of_all.end(), own.rbegin(), own.rend());
  const Decisions decisions = {Tensor::from(of_all, {2, 2, 90})};
  for (const Method method : {&Attention::forward, &Attention::quadratic}) {
    const ReplayDecisions replay(decisions);
    expect_softmax(run(*attention, method, x, kNotCausal), expected);
  }
}

// So it is where as many planes keep all rows apart.
TEST(Clustered, ManyPlanesAndClustersAreSoftmax) {
  const Sizes sizes{2, 2, 12, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto attention = make_attention(clusters_of(
      "clustered", {{"clusters", int64_t{12}}, {"bits", int64_t{64}}}, sizes, DType::f64));
  expect_softmax(run(*attention, &Attention::forward, x, kNotCausal), softmax_of(x, sizes));
}

TEST(ImprovedClustered, OfAllKeysIsSoftmax) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const Outcome expected = softmax_of(x, sizes);
  for (const int64_t clusters : {1, 8, 200})
    for (const int64_t keys : {90, 2000000000})
      expect_softmax(run(*make_attention(clusters_of("improved-clustered",
                                                     {{"clusters", clusters}, {"keys", keys}},
                                                     sizes, DType::f64)),
                         &Attention::forward, x, kNotCausal),
                     expected);
}

// The paper's proposition, for each of 1000 rows: |improved - softmax|_1 <= |clustered - softmax|_1 of the weights,
// which are y where v is the identity.
TEST(ImprovedClustered, WeightsAreNearerToSoftmax) {
  const Sizes sizes{1, 2, 500, 6, 500};
  Inputs x = draw(sizes, DType::f64, 1.5);
  std::vector<double> identity(2 * 500 * 500);
  for (size_t row = 0; row < 1000; ++row) identity[row * 500 + row % 500] = 1;
  x.v = Tensor::from(identity, {1, 2, 500, 500});
  const Settings settings = {{"clusters", int64_t{10}}, {"bits", int64_t{16}}};
  Settings improved = settings;
  improved["keys"] = int64_t{20};
  const std::vector<double> exact = softmax_of(x, sizes).y.to_doubles();
  const auto distances = [&](const AttentionOptions& options) {
    const std::vector<double> y =
        run(*make_attention(options), &Attention::forward, x, kNotCausal).y.to_doubles();
    std::vector<double> sums(1000);
    for (size_t at = 0; at < y.size(); ++at) sums[at / 500] += std::abs(y[at] - exact[at]);
    return sums;
  };
  const std::vector<double> far = distances(clusters_of("clustered", settings, sizes, DType::f64)),
                            near = distances(
                                clusters_of("improved-clustered", improved, sizes, DType::f64));
  double all_far = 0, all_near = 0;
  for (size_t row = 0; row < 1000; ++row) {
    EXPECT_LE(near[row], far[row] + 1e-12) << row;
    all_far += far[row];
    all_near += near[row];
  }
  EXPECT_LT(all_near, 0.9 * all_far);
}

// One plane w = 1, o = 0: rows above 0 and the others. The means of q are 2 and -1; the first cluster is that of the
// first row.
TEST(Clustered, FourRowsByHand) {
  const Sizes sizes{1, 1, 4, 1, 1};
  const auto attention = make_attention(clusters_of(
      "clustered", {{"clusters", int64_t{2}}, {"bits", int64_t{1}}}, sizes, DType::f64));
  write_values({1, 0}, attention->buffers().at(0).tensor);
  const auto column = [](const std::vector<double>& values) {
    return Tensor::from(values, {1, 1, 4, 1});
  };
  const Inputs x{column({1, -2, 3, 0}), column({0.5, 0, -1, 2}), column({1, 10, 100, 1000}),
                 column({1, 1, 1, 1}), column({0, 0, 0, 0})};
  const Outcome found = run(*attention, &Attention::forward, x, kNotCausal);
  EXPECT_EQ(found.decisions.at(0).to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 0, 1}));
  const auto y = [&](double p) {
    double sum = 0, total = 0;
    const std::vector<double> k = x.k.to_doubles(), v = x.v.to_doubles();
    for (size_t j = 0; j < 4; ++j) {
      sum += std::exp(p * k[j]) * v[j];
      total += std::exp(p * k[j]);
    }
    return sum / total;
  };
  const std::vector<double> ys = found.y.to_doubles();
  EXPECT_NEAR(ys[0], y(2), 1e-11);
  EXPECT_NEAR(ys[1], y(-1), 1e-11);
  EXPECT_EQ(ys[2], ys[0]);
  EXPECT_EQ(ys[3], ys[1]);
}

// Rows without sign differences are one cluster, and the others begin anew from random rows, which are alike here.
TEST(Clustered, EmptyClustersBeginAnew) {
  const Sizes sizes{1, 1, 40, 3, 2};
  Inputs x = draw(sizes, DType::f64);
  x.q = Tensor::full(x.q.shape(), DType::f64, 1.0);
  const auto attention =
      make_attention(clusters_of("clustered", {{"clusters", int64_t{5}}}, sizes, DType::f64));
  const Outcome found = run(*attention, &Attention::forward, x, kNotCausal);
  EXPECT_EQ(found.decisions.at(0).to_vector<int32_t>(), std::vector<int32_t>(40, 0));
  expect_softmax({found.y, found.dk, found.dk, found.dv}, [&] {
    const Outcome all = softmax_of(x, sizes);
    return Outcome{all.y, all.dk, all.dk, all.dv};
  }());
}

TEST(Clustered, DecidesAlikeInFloatAndDoubleAndWithAnyThreads) {
  const Sizes sizes{kSanitized ? 1 : 2, 3, kSanitized ? 200 : 300, 8, 4};
  const Inputs x = draw(sizes, DType::f32);
  const Settings settings = {{"clusters", int64_t{20}}, {"keys", int64_t{11}}};
  const auto decisions = [&](DType dtype, Method method) {
    return run(*make_attention(clusters_of("improved-clustered", settings, sizes, dtype)), method,
               in_dtype(x, dtype), kNotCausal)
        .decisions;
  };
  const Decisions expected = decisions(DType::f32, &Attention::forward);
  ASSERT_EQ(expected.size(), 2u);
  EXPECT_EQ(different_decisions(decisions(DType::f64, &Attention::forward), expected), 0);
  EXPECT_EQ(different_decisions(decisions(DType::f64, &Attention::quadratic), expected), 0);
  for (const int threads : {1, 2, 3}) {
    const Threads own(threads);
    EXPECT_EQ(different_decisions(decisions(DType::f32, &Attention::forward), expected), 0);
  }
  std::vector<int32_t> used = expected[0].to_vector<int32_t>();
  std::sort(used.begin(), used.end());
  EXPECT_GE(std::unique(used.begin(), used.end()) - used.begin(), 18);
}

// Rows are nearer to their centroid than before Lloyd's iterations.
TEST(Clustered, IterationsLowerTheDistance) {
  const Sizes sizes{1, 1, 400, 8, 2};
  const Inputs x = draw(sizes, DType::f64);
  const auto spread = [&](int64_t iterations) {
    const auto attention = make_attention(clusters_of(
        "clustered", {{"clusters", int64_t{16}}, {"iterations", iterations}}, sizes, DType::f64));
    const Tensor clusters = run(*attention, &Attention::forward, x, kNotCausal).decisions.at(0);
    const Var means = rows_of_clusters(cluster_means(Var(x.q), clusters, 16), clusters);
    double sum = 0;
    for (const double d : add(Var(x.q), scale(means, -1)).value().to_doubles()) sum += d * d;
    return sum;
  };
  EXPECT_LT(spread(10), spread(0));
}

TEST(Clustered, RefusesAMaskThatIsCausal) {
  const Sizes sizes{1, 1, 4, 3, 2};
  const Inputs x = draw(sizes, DType::f64);
  const auto attention = make_attention(clusters_of("clustered", {}, sizes, DType::f64));
  for (const Method method : {&Attention::forward, &Attention::quadratic})
    EXPECT_THROW(run(*attention, method, x, {true, {}}), Error);
  EXPECT_THROW(attention->start(1, DType::f64), Error);
}

// Planes of a generator without a seed: others in each call.
class PlanesOfEachCall final : public sabotage::Saboteur {
 public:
  explicit PlanesOfEachCall(const AttentionOptions& options)
      : Saboteur(options), options_(options) {}
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    AttentionOptions other = options_;
    other.seed = ++calls_;
    return make_attention(other)->forward(in, mask);
  }

 private:
  AttentionOptions options_;
  mutable uint64_t calls_ = 0;
};

// The causal form of other implementations: the top keys are chosen among all, later ones too, and then masked; what
// is left of the weights depends on the future. `leaks` false: among those up to i. Every row is its own cluster.
template <bool leaks>
class TopKeysThenMask final : public sabotage::Saboteur {
 public:
  explicit TopKeysThenMask(const AttentionOptions& options) : Saboteur(options) {
    traits_.not_causal = "";
  }
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t N = in.q.size(2);
    const Var scores = matmul(in.q, in.k, false, true);
    const std::vector<double> all = scores.value().to_doubles();
    std::vector<double> least;  // of the top scores of each row
    for (int64_t row = 0; row < in.q.value().numel() / in.q.size(3); ++row) {
      const auto first = all.begin() + row * N;
      std::vector<double> some(first, first + (leaks ? N : row % N + 1));
      const auto seventh = some.begin() + std::min<int64_t>(7, std::ssize(some) - 1);
      std::nth_element(some.begin(), seventh, some.end(), std::greater());
      least.push_back(*seventh);
    }
    return naive::softmax_attention(scores, in.v, mask, [&](int64_t bh, int64_t i, int64_t j) {
      return i == j || all[static_cast<size_t>((bh * N + i) * N + j)] >=
                           least[static_cast<size_t>(bh * N + i)];
    });
  }
};

AttentionOptions small_clusters() {
  AttentionOptions options;
  options.name = "improved-clustered";
  options.settings = {{"clusters", int64_t{9}}, {"bits", int64_t{12}}, {"keys", int64_t{7}}};
  return options;
}

TEST(Sabotage, PlanesOfAGeneratorWithoutSeed) {
  sabotage::expect_caught<PlanesOfEachCall>("two runs: bits", small_clusters());
}

TEST(Sabotage, TopKeysOfClustersThatAreMaskedLater) {
  sabotage::expect_caught<TopKeysThenMask<true>, TopKeysThenMask<false>>("causality: bits",
                                                                         small_clusters());
}

}  // namespace
}  // namespace linea
