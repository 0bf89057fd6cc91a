// The Performer: what omega depends on and when it changes, that its forms share it, what its
// features estimate, and that it keeps no features.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "autograd/linear_attention.h"
#include "nn/attention.h"
#include "nn/random_projection.h"
#include "nn/verify/conformance_tools.h"
#include "tensor/caching_allocator.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

using namespace conformance;

const char* const kFeatures[] = {"positive", "hyperbolic", "trig", "relu"};

AttentionOptions performer(const std::string& feature, int64_t features, int64_t redraw = 0,
                           DType dtype = DType::f64) {
  AttentionOptions options = options_of("performer", 3, 5, 7, dtype);
  options.settings["feature"] = feature;
  options.settings["features"] = features;
  options.settings["redraw"] = redraw;
  return options;
}

std::vector<double> omega_of(const Attention& attention) {
  return attention.buffers().at(0).tensor.to_doubles();
}

TEST(Performer, OmegaDependsOnSeedLayerHeadAndStep) {
  AttentionOptions options = performer("positive", 9, 4, DType::f32);
  options.seed = 5;
  options.layer = 2;
  const auto attention = make_attention(options);
  const auto expect_sampled_at = [&](uint64_t step) {
    std::vector<double> expected;
    for (uint32_t head = 0; head < 3; ++head)
      for (const double x : draw_projection(Projection::orthogonal, 9, 5,
                                            {5, Purpose::features, 2 * 3 + head, step}))
        expected.push_back(static_cast<float>(x));
    EXPECT_EQ(omega_of(*attention), expected) << step;
  };
  EXPECT_EQ(attention->buffers().at(0).name, "omega");
  EXPECT_EQ(attention->buffers().at(0).tensor.shape(), (Shape{3, 9, 5}));
  expect_sampled_at(0);
  for (int64_t step = 0; step < 11; ++step) {
    attention->before_step(step, 100);
    expect_sampled_at(static_cast<uint64_t>(step / 4 * 4));
  }
  // Where the training came from does not matter, nor how many steps it has.
  const auto resumed = make_attention(options);
  resumed->before_step(8, 9);
  EXPECT_EQ(omega_of(*resumed), omega_of(*attention));
  attention->before_step(4, 100);
  expect_sampled_at(4);

  for (const std::string what : {"seed", "layer"}) {
    AttentionOptions other = options;
    if (what == "seed") ++other.seed;
    if (what == "layer") ++other.layer;
    EXPECT_NE(omega_of(*make_attention(other)), omega_of(*make_attention(options))) << what;
  }
  options.settings["projection"] = "iid";
  EXPECT_NE(omega_of(*make_attention(options)), omega_of(*attention));
}

TEST(Performer, NothingElseRedrawsOmega) {
  for (const int64_t redraw : {0, 1}) {
    const auto attention = make_attention(performer("hyperbolic", 6, redraw));
    const std::vector<double> omega = omega_of(*attention);
    attention->before_step(0, 10);
    const Inputs x = draw({2, 3, 9, 5, 7}, DType::f64);
    run(*attention, &Attention::forward, x, {});
    run(*attention, &Attention::quadratic, x, {});
    const auto state = attention->start(2, DType::f64);
    for (int64_t n = 0; n < 9; ++n) attention->step(*state, step_at(*attention, x, n));
    attention->after_step();
    EXPECT_EQ(omega_of(*attention), omega);
    attention->before_step(1, 10);
    EXPECT_EQ(omega_of(*attention) == omega, redraw == 0);
  }
}

void expect_forms_agree(const Attention& attention, const Inputs& x, const std::string& where) {
  const Outcome expected = run(attention, &Attention::quadratic, x, {}),
                found = run(attention, &Attention::forward, x, {});
  EXPECT_LE(relative_error(found.y, expected.y), 1e-9) << where;
  EXPECT_LE(gradient_error(found, expected), 1e-8) << where;
  const auto state = attention.start(x.q.size(0), x.q.dtype());
  for (int64_t n = 0; n < x.q.size(2); ++n) {
    const Tensor y = attention.step(*state, step_at(attention, x, n));
    EXPECT_LE(relative_error(y, at_position(expected.y, n), 0.1), 1e-8) << where << " step " << n;
  }
}

// Saved after a redraw, loaded into an instance of another seed that had already been used.
TEST(Performer, FormsAgreeAfterRedrawingSavingAndLoading) {
  const Inputs x = draw({2, 3, 40, 5, 7}, DType::f64, 0.5);
  for (const char* feature : kFeatures) {
    const auto source = make_attention(performer(feature, 16, 2));
    source->before_step(2, 10);
    AttentionOptions other = performer(feature, 16);
    other.seed = 77;
    const auto copy = make_attention(other);
    const Tensor unloaded = run(*copy, &Attention::forward, x, {}).y;
    write_values(omega_of(*source), copy->buffers().at(0).tensor);
    copy->buffers_changed();
    const Tensor from_source = run(*source, &Attention::forward, x, {}).y,
                 from_copy = run(*copy, &Attention::forward, x, {}).y;
    EXPECT_EQ(from_source.to_doubles(), from_copy.to_doubles()) << feature;
    EXPECT_GT(relative_error(unloaded, from_copy), 1e-3) << feature;
    expect_forms_agree(*copy, x, feature);
    source->before_step(4, 10);
    EXPECT_GT(relative_error(run(*source, &Attention::forward, x, {}).y, from_copy), 1e-3)
        << feature;
    expect_forms_agree(*source, x, feature);
  }
}

TEST(Performer, OneFeatureAndManyWork) {
  const Inputs x = draw({1, 3, 20, 5, 7}, DType::f64, 0.5);
  for (const char* feature : kFeatures)
    for (const int64_t features : {1, 4, 1024})
      expect_forms_agree(*make_attention(performer(feature, features)), x,
                         fmt::format("{} {}", feature, features));
}

// Under bf16 products, too: they are logs.
TEST(Performer, LogWeightsOfTrigAreNotRounded) {
  const FloatProducts before = std::exchange(context().products, FloatProducts::rounded);
  AttentionOptions options = performer("trig", 4, 0, DType::f32);
  options.heads = 1;
  options.key_size = options.value_size = 64;
  const Tensor key = random_tensor({1, 1, 1, 64}, 5, 1.0, 0.0, DType::f32);
  const auto attention = make_attention(options);
  const auto state = attention->start(1, DType::f32);
  attention->step(*state, {Var(key), Var(key), Var(key), Var()});
  context().products = before;
  double expected = 0;
  for (const double x : key.to_doubles()) expected += x * x / (2 * 8);
  for (const double log : dynamic_cast<LinearState&>(*state).recurrent.scale().to_doubles())
    EXPECT_NEAR(log, expected, 1e-6 * expected);
}

// phi of one key for each head, from the key sum of a state that has seen nothing else.
std::vector<double> features_of_key(const Attention& attention, const Tensor& key,
                                    const Tensor& value) {
  const auto state = attention.start(1, DType::f64);
  attention.step(*state, {Var(key), Var(key), Var(value), Var()});
  const LinearState& linear = dynamic_cast<const LinearState&>(*state);
  std::vector<double> phi = linear.recurrent.key_sum().to_doubles();
  const std::vector<double> scale = linear.recurrent.scale().to_doubles();
  for (size_t i = 0; i < phi.size(); ++i) phi[i] *= std::exp(scale[i]);
  return phi;
}

// E phi(q).phi(k) / R = exp(q.k / sqrt(D)): the mean over many draws, to five of its standard
// errors.
TEST(Performer, FeaturesEstimateSoftmax) {
  for (const std::string feature : {"positive", "hyperbolic", "trig"}) {
    for (const std::string projection : {"iid", "orthogonal"}) {
      AttentionOptions options = performer(feature, 8, 1);
      options.settings["projection"] = projection;
      const auto attention = make_attention(options);
      const Tensor q = random_tensor({1, 3, 1, 5}, 51, 0.5),
                   k = random_tensor({1, 3, 1, 5}, 52, 0.5), v = random_tensor({1, 3, 1, 7}, 53);
      std::vector<double> sums(3), squares(3);
      const int64_t draws = 800;
      for (int64_t step = 0; step < draws; ++step) {
        attention->before_step(step, draws);
        const std::vector<double> a = features_of_key(*attention, q, v),
                                  b = features_of_key(*attention, k, v);
        const size_t F = a.size() / 3, averaged = feature == "hyperbolic" ? 2 * 8 : 8;
        for (size_t head = 0; head < 3; ++head) {
          double product = 0;
          for (size_t f = 0; f < F; ++f) product += a[head * F + f] * b[head * F + f];
          product /= static_cast<double>(averaged);
          sums[head] += product;
          squares[head] += product * product;
        }
      }
      const std::vector<double> x = q.to_doubles(), y = k.to_doubles();
      for (size_t head = 0; head < 3; ++head) {
        double product = 0;
        for (size_t d = 0; d < 5; ++d) product += x[head * 5 + d] * y[head * 5 + d];
        const double expected = std::exp(product / std::sqrt(5.0)), n = static_cast<double>(draws),
                     mean = sums[head] / n;
        const double error = std::sqrt((squares[head] / n - mean * mean) / n);
        EXPECT_NEAR(mean, expected, 5 * error) << feature << " " << projection << " head " << head;
        EXPECT_LT(error, 0.05 * expected) << feature << " " << projection << " head " << head;
      }
    }
  }
}

// What a forward and backward hold beyond inputs and results grows by a few scalars a position,
// where a row of features has 256 and more.
TEST(Performer, SavesNoFeatures) {
  const Threads threads(1);
  for (const char* feature : kFeatures) {
    AttentionOptions options = performer(feature, 256, 0, DType::f32);
    options.heads = 1;
    options.key_size = options.value_size = 16;
    const auto attention = make_attention(options);
    const auto extra = [&](int64_t length) {
      const Inputs x = draw({1, 1, length, 16, 16}, DType::f32, 0.5);
      cpu_allocator().reset_peak();
      const double before = static_cast<double>(cpu_allocator().use().held);
      const Outcome o = run(*attention, &Attention::forward, x, {});
      const double results =
          static_cast<double>(o.y.bytes() + o.dq.bytes() + o.dk.bytes() + o.dv.bytes());
      return static_cast<double>(cpu_allocator().use().peak) - before - results;
    };
    extra(2048);  // what is made once
    const double at_2048 = extra(2048), at_8192 = extra(8192);
    EXPECT_LE((at_8192 - at_2048) / (6144 * sizeof(float)), 8.0)
        << feature << ": " << at_2048 << ", " << at_8192;
  }
}

TEST(Performer, RefusesInvalidSettings) {
  const auto message = [](const std::function<void(AttentionOptions&)>& change) -> std::string {
    AttentionOptions options = performer("positive", 8);
    change(options);
    try {
      make_attention(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message([](auto& o) { o.settings["features"] = 0; }).find("`features` is 0"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.settings["redraw"] = -1; }).find("`redraw` is -1"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) {
              o.settings["feature"] = "elu";
            }).find("positive, hyperbolic, trig, relu"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.settings["projection"] = "dense"; }).find("fixed-norm"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.settings["rule"] = "gated"; }).find("no setting `rule`"),
            std::string::npos);
}

}  // namespace
}  // namespace linea
