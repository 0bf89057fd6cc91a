// Keys of the query's cluster: limits, a case by hand, decisions that are alike everywhere, how centroids learn,
// and what known implementations leak.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/verify/conformance_tools.h"
#include "tests/expect_error.h"
#include "tests/nn/attention/future.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

AttentionOptions routing_options(const Settings& settings, const Sizes& sizes, DType dtype) {
  AttentionOptions options =
      options_of("routing", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings = settings;
  options.length = sizes.length;
  return options;
}
std::unique_ptr<Attention> routing(int64_t clusters, int64_t window, const Sizes& sizes,
                                   DType dtype, int64_t local_heads = 0) {
  return make_attention(routing_options(
      {{"clusters", clusters}, {"window", window}, {"local_heads", local_heads}}, sizes, dtype));
}
Tensor routing_buffer(const Attention& attention, const std::string& name) {
  for (const Buffer& one : attention.buffers())
    if (one.name == name) return one.tensor;
  ADD_FAILURE() << "there is no buffer " << name;
  return {};
}

TEST(Routing, OfOneClusterIsSoftmax) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  for (const bool causal : {true, false})
    for (const int64_t window : {causal ? 90 : 180, 2000000000}) {
      const Outcome expected = run(*softmax, &Attention::quadratic, x, {causal, {}}),
                    found = run(*routing(1, window, sizes, DType::f64), &Attention::forward, x,
                                {causal, {}});
      EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
      EXPECT_LE(gradient_error(found, expected), 1e-12);
    }
}

TEST(Routing, LocalHeadsAreBands) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  AttentionOptions band = options_of("softmax", 2, 5, 7, DType::f64);
  band.settings["window"] = int64_t{9};
  const Tensor valid = Tensor::from(std::vector<int32_t>{90, 33}, {2});
  for (const bool causal : {true, false}) {
    const Outcome expected = run(*make_attention(band), &Attention::quadratic, x, {causal, valid}),
                  found = run(*routing(4, 9, sizes, DType::f64, 2), &Attention::forward, x,
                              {causal, valid});
    const auto existing = [](const Tensor& t) { return pick(t, {0}, {0, 1}, 90); };
    EXPECT_LE(relative_error(existing(found.y), existing(expected.y)), 1e-12);
    const auto padded = [](const Tensor& t) { return pick(t, {1}, {0, 1}, 33); };
    EXPECT_LE(relative_error(padded(found.y), padded(expected.y)), 1e-12);
  }
  EXPECT_THROW(routing(4, 9, sizes, DType::f64, 3), Error);
}

// Centroids 1 and -1. Queries are of clusters 0, 1, 0, 0 and keys of 0, 0, 1, 0; scores are 0 or nearly
// so, as keys are 1e-9 long.
TEST(Routing, FourRowsByHand) {
  const Sizes sizes{1, 1, 4, 1, 1};
  const auto column = [](std::vector<double> values) {
    return Var(Tensor::from(values, {1, 1, 4, 1}));
  };
  const AttentionInputs in{column({1, -1, 1, 1}), column({1e-9, 1e-9, -1e-9, 1e-9}),
                           column({8, 16, 32, 64}), Var()};
  const auto rows = [&](int64_t window, bool causal) {
    const auto attention = routing(2, window, sizes, DType::f64);
    write_values({1, -1}, routing_buffer(*attention, "centroids"));
    attention->buffers_changed();
    std::vector<double> y = attention->forward(in, {causal, {}}).value().to_doubles();
    for (double& value : y) value = std::round(value * 1e6) / 1e6;
    return y;
  };
  // Row 2 sees itself and the last keys of cluster 0 before it.
  EXPECT_EQ(rows(1, true), (std::vector<double>{8, 16, 24, 64}));
  EXPECT_EQ(rows(2, true), (std::vector<double>{8, 16, 18.666667, 40}));
  // In both directions a row sees its cluster's ranks above n - 1 and up to n + 1, and itself: row 0 has n = 1
  // and sees ranks 1 and 2, row 1 has n = 0 in cluster 1, row 2 has n = 2.
  EXPECT_EQ(rows(2, false), (std::vector<double>{12, 24, 37.333333, 64}));
}

TEST(Routing, ClustersFollowFromTheLength) {
  const auto clusters = [](int64_t length) {
    return routing_buffer(*routing(0, 8, {1, 1, length, 4, 4}, DType::f32), "centroids").size(1);
  };
  EXPECT_EQ(clusters(1024), 32);
  EXPECT_EQ(clusters(1025), 33);
  EXPECT_EQ(clusters(1), 1);
}

TEST(Routing, DecidesAlikeInFloatAndDoubleAndWithAnyThreads) {
  const Sizes sizes{2, 3, 300, 8, 4};
  const Inputs x = draw(sizes, DType::f32);
  const auto clusters = [&](DType dtype, Method method) {
    return run(*routing(9, 20, sizes, dtype, 1), method, in_dtype(x, dtype), {}).decisions;
  };
  const Decisions expected = clusters(DType::f32, &Attention::forward);
  EXPECT_EQ(expected.size(), size_t{2});
  EXPECT_EQ(different_decisions(clusters(DType::f64, &Attention::forward), expected), 0);
  EXPECT_EQ(different_decisions(clusters(DType::f64, &Attention::quadratic), expected), 0);
  for (const int threads : {1, 2, 3}) {
    const Threads own(threads);
    EXPECT_EQ(different_decisions(clusters(DType::f32, &Attention::forward), expected), 0);
  }
  const std::vector<int32_t> queries = expected[0].to_vector<int32_t>();
  EXPECT_EQ(*std::max_element(queries.begin(), queries.end()), 8);
}

TEST(Routing, RowsDoNotDependOnTheFuture) {
  expect_no_future(*routing(4, 30, {1, 2, 260, 5, 4}, DType::f32), 260);
}

std::unique_ptr<Attention> nearest_rows(int64_t clusters, int64_t window, const Sizes& sizes,
                                        DType dtype) {
  return make_attention(routing_options(
      {{"clusters", clusters}, {"window", window}, {"assign", std::string("top")}}, sizes, dtype));
}

TEST(Routing, NearestRowsOfOneClusterAreSoftmax) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(options_of("softmax", 2, 5, 7, DType::f64));
  const Tensor valid = Tensor::from(std::vector<int32_t>{90, 33}, {2});
  const Outcome expected = run(*softmax, &Attention::quadratic, x, {false, valid});
  for (const int64_t window : {90, 2000000000}) {
    const Outcome found =
        run(*nearest_rows(1, window, sizes, DType::f64), &Attention::forward, x, {false, valid});
    for (const size_t b : {0, 1}) {
      const auto existing = [b](const Tensor& t) { return pick(t, {b}, {0, 1}, b == 0 ? 90 : 33); };
      EXPECT_LE(relative_error(existing(found.y), existing(expected.y)), 1e-12) << window;
    }
  }
}

// Centroids 1 and -1, and scores that are nearly 0. In order of q: rows 0, 2, 1, 3; of k: rows 1, 0, 3, 2.
TEST(Routing, NearestRowsByHand) {
  const auto column = [](const std::vector<double>& values) {
    return Var(Tensor::from(values, {1, 1, 4, 1}));
  };
  const AttentionInputs in{column({3, -1, 2, -4}), column({1e-9, 5e-9, -2e-9, -1e-9}),
                           column({8, 16, 32, 64}), Var()};
  const auto rows = [&](int64_t window) {
    const auto attention = nearest_rows(2, window, {1, 1, 4, 1, 1}, DType::f64);
    write_values({1, -1}, routing_buffer(*attention, "centroids"));
    attention->buffers_changed();
    std::vector<double> y = attention->forward(in, not_causal()).value().to_doubles();
    for (double& value : y) value = std::round(value * 1e6) / 1e6;
    return y;
  };
  // Rows 0 and 3 are chosen and read rows 1 and 2, and themselves; the others have their own values.
  EXPECT_EQ(rows(1), (std::vector<double>{12, 16, 32, 48}));
  // Rows 0 and 2 read 0 and 1, rows 1 and 3 read 2 and 3.
  EXPECT_EQ(rows(2), (std::vector<double>{12, 37.333333, 18.666667, 48}));
  // Rows 0, 1, 2 read 0, 1, 3, and rows 1, 2, 3 read 0, 2, 3: rows 1 and 2 have means of both.
  EXPECT_EQ(rows(3), (std::vector<double>{29.333333, 29.666667, 32.333333, 34.666667}));
}

TEST(Routing, NearestRowsHaveNoCausalForm) {
  const Sizes sizes{1, 1, 9, 4, 4};
  const auto attention = nearest_rows(3, 4, sizes, DType::f64);
  expect_error(ErrorKind::usage, {"routing has no causal form", "chosen over the whole sequence"},
               [&] {
                 run(*attention, &Attention::forward, draw(sizes, DType::f64), {true, {}});
               });
  EXPECT_THROW(attention->start(1, DType::f64), Error);
}

// A state begins as large as it becomes, unless there are more positions than `length` says.
TEST(Routing, StepsMayPassTheLength) {
  const Sizes sizes{1, 2, 100, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  AttentionOptions options =
      routing_options({{"clusters", int64_t{3}}, {"window", int64_t{25}}}, sizes, DType::f64);
  options.length = 10;
  const auto attention = make_attention(options);
  const Tensor y = attention->forward(inputs_for(*attention, x, false), {}).value();
  const auto state = attention->start(1, DType::f64);
  const size_t before = state->bytes();
  for (int64_t n = 0; n < 100; ++n) {
    const Tensor row = attention->step(*state, step_at(*attention, x, n));
    EXPECT_LE(relative_error(row, at_position(y, n)), 1e-12) << n;
    if (n == 9) {
      EXPECT_EQ(state->bytes(), before);
    }
  }
}

// The unit rows of q and k in each cluster, summed: of the first step as they are, then means. A skipped step and
// forwards leave no trace; two batches of a step count as one.
TEST(Routing, CentroidsAreMeansOfTheirRows) {
  const int64_t H = 2, C = 3, D = 4, N = 50;
  const Sizes sizes{2, H, N, D, 5};
  const auto attention = make_attention(routing_options(
      {{"clusters", C}, {"centroid_decay", 0.75}, {"local_heads", int64_t{1}}}, sizes, DType::f64));
  std::vector<double> m(static_cast<size_t>(H * C * D));
  for (uint32_t step = 0; step < 4; ++step) {
    const Tensor before = routing_buffer(*attention, "centroids").clone();
    std::vector<double> expected = before.to_doubles(), fresh(m.size());
    for (uint32_t batch = 0; batch < 2; ++batch) {
      const Inputs x = draw(sizes, DType::f64, 1.0, 100 * step + 10 * batch);
      const AttentionInputs in = inputs_for(*attention, x, false);
      Decisions decisions;
      {
        const RecordDecisions record(decisions);
        attention->forward(in, {});
      }
      attention->auxiliary_loss(
          {Var(Tensor::full(x.q.shape(), DType::f64, std::nan(""))), in.k, in.v, Var()}, {});
      attention->skip_step();
      attention->after_step();
      EXPECT_EQ(routing_buffer(*attention, "centroids").to_doubles(), before.to_doubles());
      for (size_t of = 0; of < 2; ++of) {
        const std::vector<double> rows = (of == 0 ? x.q : x.k).to_doubles();
        const std::vector<int32_t> clusters = decisions[of].to_vector<int32_t>();
        for (int64_t row = 0; row < 2 * H * N; ++row) {
          const auto first = rows.begin() + row * D;
          const double length = std::sqrt(std::inner_product(first, first + D, first, 0.0));
          const int64_t head = row / N % H, cluster = clusters[static_cast<size_t>(row)];
          for (int64_t d = 0; head == 1 && d < D; ++d)
            fresh[static_cast<size_t>((head * C + cluster) * D + d)] += first[d] / length;
        }
      }
    }
    for (uint32_t batch = 0; batch < 2; ++batch)
      attention->auxiliary_loss(
          inputs_for(*attention, draw(sizes, DType::f64, 1.0, 100 * step + 10 * batch), false), {});
    attention->after_step();
    for (size_t i = 0; i < m.size(); ++i)
      m[i] = step == 0 ? fresh[i] : 0.75 * m[i] + 0.25 * fresh[i];
    for (size_t row = 0; row < m.size(); row += 4) {
      const auto first = m.begin() + static_cast<std::ptrdiff_t>(row);
      const double length = std::sqrt(std::inner_product(first, first + D, first, 0.0));
      for (size_t d = row; length > 0 && d < row + 4; ++d) expected[d] = m[d] / length;
    }
    const std::vector<double> found = routing_buffer(*attention, "centroids").to_doubles();
    for (size_t i = 0; i < m.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << step;
    write_values(found, routing_buffer(*attention, "centroids"));
    attention->buffers_changed();
    m = routing_buffer(*attention, "centroid_sums").to_doubles();  // rounded to float
  }
}

// commitment (mean |q^ - mu|^2 + mean |k^ - mu|^2) of the heads with clusters, and its gradient.
TEST(Routing, CommitmentPullsRowsToCentroids) {
  const Sizes sizes{2, 3, 11, 4, 5};
  const auto attention = make_attention(
      routing_options({{"clusters", int64_t{3}}, {"commitment", 0.5}, {"local_heads", int64_t{1}}},
                      sizes, DType::f64));
  const AttentionInputs in = inputs_for(*attention, draw(sizes, DType::f64), true);
  Decisions decisions;
  {
    const RecordDecisions record(decisions);
    attention->forward(in, {});
  }
  const std::vector<double> centroids = routing_buffer(*attention, "centroids").to_doubles();
  for (const size_t second : {11, 4}) {  // valid rows of the second sequence
    double expected = 0;
    for (size_t of = 0; of < 2; ++of) {
      const std::vector<double> rows = unit_rows(of == 0 ? in.q : in.k, 1).value().to_doubles();
      const std::vector<int32_t> clusters = decisions[of].to_vector<int32_t>();
      for (size_t row = 0; row < clusters.size(); ++row) {
        if (row >= 3 * 11 && row % 11 >= second) continue;
        const size_t head = row / 11 % 3, cluster = static_cast<size_t>(clusters[row]);
        for (size_t d = 0; head > 0 && d < 4; ++d)
          expected += 0.5 / (2.0 * static_cast<double>(11 + second)) *
                      std::pow(rows[row * 4 + d] - centroids[(head * 3 + cluster) * 4 + d], 2);
      }
    }
    const Tensor valid = Tensor::from(std::vector<int32_t>{11, static_cast<int32_t>(second)}, {2});
    const auto loss = [&] {
      const Var term = attention->auxiliary_loss(in, {true, valid});
      attention->skip_step();
      return term;
    };
    EXPECT_NEAR(loss().value().item(), expected, 1e-6);  // centroids are floats
    EXPECT_LE(gradcheck_leaves(loss, {in.q, in.k}).error, 1e-7);
  }
}

// What other implementations do: the rows nearest each centroid are chosen over the whole sequence, and a
// triangular mask comes after. `leaks` false: the nearest of the rows up to the query.
template <bool leaks>
class NearestOfTheSequence final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t H = in.q.size(1), N = in.q.size(2), D = in.q.size(3);
    const Tensor centroids = right_->buffers().at(0).tensor;
    const std::vector<double> keys = in.k.value().to_doubles(), all = centroids.to_doubles();
    std::vector<double> products;  // with the first centroid
    for (int64_t row = 0; row < in.q.size(0) * H * N; ++row)
      products.push_back(std::inner_product(keys.begin() + row * D, keys.begin() + (row + 1) * D,
                                            all.begin() + row / N % H * centroids.size(1) * D,
                                            0.0));
    std::vector<bool> near(products.size() * static_cast<size_t>(N));  // [BH,N,N], key first
    for (int64_t key = 0; key < static_cast<int64_t>(products.size()); ++key) {
      int64_t nearer = 0;
      const auto at = [&](int64_t n) { return products[static_cast<size_t>(key / N * N + n)]; };
      for (int64_t n = 0; leaks && n < N; ++n) nearer += at(n) > at(key % N);
      for (int64_t i = 0; i < N; ++i) {
        nearer += !leaks && at(i) > at(key % N);
        near[static_cast<size_t>(key * N + i)] = nearer < 20;
      }
    }
    const auto allowed = [&](int64_t bh, int64_t i, int64_t j) {
      return i == j || near[static_cast<size_t>((bh * N + j) * N + i)];
    };
    return naive::softmax_attention(matmul(in.q, in.k, false, true), in.v, mask, allowed);
  }
};

TEST(Sabotage, NearestRowsOfTheSequence) {
  AttentionOptions options;
  options.name = "routing";
  options.settings = {{"clusters", int64_t{3}}, {"window", int64_t{20}}};
  sabotage::expect_caught<NearestOfTheSequence<true>, NearestOfTheSequence<false>>(
      "causality: bits", options);
}

// Centroids that move inside of the forward pass: the second run is another.
class MovesInForward final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Var y = right_->forward(in, mask);
    right_->auxiliary_loss(in, mask);
    right_->after_step();
    return y;
  }
};

TEST(Sabotage, CentroidsThatMoveInForward) {
  AttentionOptions options;
  options.name = "routing";
  options.settings = {{"clusters", int64_t{3}}, {"window", int64_t{20}}};
  sabotage::expect_caught<MovesInForward>("two runs: bits", options);
}

}  // namespace
}  // namespace linea
