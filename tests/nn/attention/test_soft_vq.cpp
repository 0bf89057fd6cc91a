// The Gaussian mixture: its formula by loops, the gradients of its codebook and width where tiles
// cut heads apart, its temperature, and the hard codes that it ends in.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

using namespace conformance;

AttentionOptions mixture(int64_t codes, int64_t heads, int64_t key_size, int64_t value_size,
                         DType dtype = DType::f64) {
  AttentionOptions options = options_of("soft-vq", heads, key_size, value_size, dtype);
  options.settings["codes"] = codes;
  return options;
}

// y_i = sum_j a_ij v_j / sum_j a_ij, a_ij = sum_f exp(q_i.c_f) p(f | k_j)
Tensor by_loops(const Inputs& x, const Tensor& codebook, double width, bool causal) {
  const int64_t H = x.q.size(1), N = x.q.size(2), D = x.q.size(3), M = x.v.size(3),
                F = codebook.size(1);
  const std::vector<double> q = x.q.to_doubles(), k = x.k.to_doubles(), v = x.v.to_doubles(),
                            c = codebook.to_doubles();
  const auto at = [](const std::vector<double>& values, int64_t i) {
    return values[static_cast<size_t>(i)];
  };
  std::vector<double> y(v.size());
  for (int64_t pair = 0; pair < x.q.size(0) * H; ++pair) {
    const int64_t head = pair % H;
    std::vector<std::vector<double>> share;
    for (int64_t j = 0; j < N; ++j) {
      std::vector<double> p;
      double total = 0;
      for (int64_t f = 0; f < F; ++f) {
        double distance = 0;
        for (int64_t d = 0; d < D; ++d)
          distance += std::pow(at(k, (pair * N + j) * D + d) - at(c, (head * F + f) * D + d), 2);
        p.push_back(std::exp(-distance / (2 * width)));
        total += p.back();
      }
      for (double& one : p) one /= total;
      share.push_back(p);
    }
    for (int64_t i = 0; i < N; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : N); ++j) {
        double a = 0;
        for (int64_t f = 0; f < F; ++f) {
          double product = 0;
          for (int64_t d = 0; d < D; ++d)
            product += at(q, (pair * N + i) * D + d) * at(c, (head * F + f) * D + d);
          a += std::exp(product) * share[static_cast<size_t>(j)][static_cast<size_t>(f)];
        }
        sum += a;
        for (int64_t m = 0; m < M; ++m)
          y[static_cast<size_t>((pair * N + i) * M + m)] += a * at(v, (pair * N + j) * M + m);
      }
      for (int64_t m = 0; m < M; ++m) y[static_cast<size_t>((pair * N + i) * M + m)] /= sum;
    }
  }
  return Tensor::from(y, x.v.shape());
}

Tensor buffer(const Attention& attention, const std::string& name) {
  for (const Buffer& one : attention.buffers())
    if (one.name == name) return one.tensor;
  ADD_FAILURE() << "no buffer " << name;
  return {};
}

TEST(SoftVq, MatchesItsFormula) {
  const Inputs x = draw({2, 3, 45, 4, 5}, DType::f64);
  AttentionOptions options = mixture(6, 3, 4, 5);
  options.settings["sigma"] = 0.75;
  options.settings["anneal"] = 0.25;
  const auto attention = make_attention(options);
  const Tensor codebook = attention->parameters().at(0).var.value();
  for (const bool causal : {true, false}) {
    attention->before_step(0, 5);
    EXPECT_LE(relative_error(run(*attention, &Attention::forward, x, {causal, {}}).y,
                             by_loops(x, codebook, 0.5625, causal)),
              1e-12);
    attention->before_step(4, 5);
    EXPECT_LE(relative_error(run(*attention, &Attention::forward, x, {causal, {}}).y,
                             by_loops(x, codebook, 0.5625 / 4, causal)),
              1e-12);
  }
}

// Two pairs a tile and three heads: a tile begins at any head. Everything against the definition,
// and some elements against differences of it.
TEST(SoftVq, GradientsWhereTilesCutHeads) {
  const int64_t F = 256, H = 3, N = 130, D = 3;
  const Inputs x = draw({2, H, N, D, 4}, DType::f64);
  for (const auto& [count, segment] : {std::pair<int, int64_t>{2, 0}, {1, 100}}) {
    {
      const Threads threads(count);
      AttentionOptions options = mixture(F, H, D, 4);
      options.segment = segment;
      options.settings["sigma"] = 0.8;
      options.settings["anneal"] = 0.5;
      const auto attention = make_attention(options);
      attention->before_step(1, 2);
      for (const bool causal : {true, false}) {
        const Outcome found = run(*attention, &Attention::forward, x, {causal, {}});
        const Outcome expected = run(*attention, &Attention::quadratic, x, {causal, {}});
        EXPECT_LE(gradient_error(found, expected), 1e-9)
            << segment << " " << count << " " << causal;
        ASSERT_EQ(found.dparameters.size(), 2u);
        if (segment != 0) continue;
        const auto value = [&] {
          const NoGrad no_grad;
          const std::vector<double> y =
              attention->forward({Var(x.q), Var(x.k), Var(x.v), Var()}, {causal, {}})
                  .value()
                  .to_doubles();
          const std::vector<double> dy = x.dy.to_doubles();
          double total = 0;
          for (size_t i = 0; i < y.size(); ++i) total += y[i] * dy[i];
          return total;
        };
        const auto expect_gradient = [&](Var parameter, const Tensor& gradient, size_t element) {
          const Tensor own = parameter.value();
          const auto moved = [&](double offset) {
            std::vector<double> values = own.to_doubles();
            values[element] += offset;
            parameter.set_value(Tensor::from(values, own.shape()));
            const double result = value();
            parameter.set_value(own);
            return result;
          };
          const double h = 4e-4,
                       numeric =
                           (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
          const std::vector<double> grads = gradient.to_doubles();
          const double largest =
              relative_error(gradient, Tensor::zeros(gradient.shape(), DType::f64));
          EXPECT_NEAR(grads[element], numeric, 1e-7 * largest) << element << " causal " << causal;
        };
        expect_gradient(attention->parameters()[1].var, found.dparameters[1], 0);
        for (const size_t head : {0, 1, 2})
          for (const size_t element : {0, 100, 767})
            expect_gradient(attention->parameters()[0].var, found.dparameters[0],
                            head * 768 + element);
      }
    }
  }
}

TEST(SoftVq, ThreadsDoNotChangeTheBits) {
  const Inputs x = draw({5, 2, 300, 8, 8}, DType::f32);
  const auto gradients = [&](int threads) {
    const Threads set(threads);
    const auto attention = make_attention(mixture(64, 2, 8, 8, DType::f32));
    const Outcome found = run(*attention, &Attention::forward, x, {true, {}});
    std::vector<std::vector<double>> all = {found.y.to_doubles(), found.dq.to_doubles(),
                                            found.dk.to_doubles()};
    for (const Tensor& grad : found.dparameters) all.push_back(grad.to_doubles());
    return all;
  };
  const auto alone = gradients(1);
  for (const int threads : {2, 3}) EXPECT_EQ(gradients(threads), alone) << threads;
}

TEST(SoftVq, TheTemperatureIsAnnealedByTheStep) {
  AttentionOptions options = mixture(8, 2, 4, 4, DType::f32);
  options.settings["anneal"] = 0.01;
  const auto attention = make_attention(options);
  const Tensor temperature = buffer(*attention, "temperature");
  EXPECT_EQ(temperature.item(), 1.0);
  const std::pair<int64_t, double> expected[] = {
      {0, 1.0}, {50, 0.1}, {100, 0.01}, {25, std::pow(0.01, 0.25)}};
  for (const auto& [step, value] : expected) {
    attention->before_step(step, 101);
    EXPECT_NEAR(temperature.item(), value, 1e-6) << step;
  }
  attention->before_step(300, 101);  // a run that continues after the end of its schedule
  const double after = temperature.item();
  attention->before_step(100, 101);
  EXPECT_EQ(temperature.item(), after);
  attention->before_step(0, 1);
  EXPECT_EQ(temperature.item(), 1.0);
  options.settings["anneal"] = 1;
  const auto constant = make_attention(options);
  constant->before_step(70, 101);
  EXPECT_EQ(buffer(*constant, "temperature").item(), 1.0);
}

// With the same codebook, at a temperature near 0.
TEST(SoftVq, ColdCodesAreHard) {
  const Inputs x = draw({2, 2, 60, 4, 5}, DType::f64);
  AttentionOptions options = mixture(8, 2, 4, 5);
  options.settings["anneal"] = 1e-6;
  const auto soft = make_attention(options);
  options.name = "vq";
  options.settings = {{"codes", 8}};
  const auto hard = make_attention(options);
  write_values(soft->parameters().at(0).var.value().to_doubles(), buffer(*hard, "codebook"));
  hard->buffers_changed();
  const Tensor expected = run(*hard, &Attention::forward, x, {}).y;
  EXPECT_GT(relative_error(run(*soft, &Attention::forward, x, {}).y, expected), 1e-2);
  soft->before_step(9, 10);
  EXPECT_LE(relative_error(run(*soft, &Attention::forward, x, {}).y, expected), 1e-9);
}

TEST(SoftVq, RefusesInvalidSettings) {
  for (const char* what : {"`codes`", "`sigma`", "`anneal`"}) {
    AttentionOptions options = mixture(4, 1, 4, 4);
    if (std::string(what) == "`codes`") options.settings["codes"] = 0;
    if (std::string(what) == "`sigma`") options.settings["sigma"] = 0;
    if (std::string(what) == "`anneal`") options.settings["anneal"] = -1;
    try {
      make_attention(options);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace linea
