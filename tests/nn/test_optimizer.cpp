// The optimizers against a plain reference in double, and what resuming needs of them.
#include "nn/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/context.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

// Two parameters in double: a matrix [3,4], which decays, and a row [4], which does not.
Parameters two_parameters(DType dtype = DType::f64) {
  return {{"weight", Var(random_tensor({3, 4}, 41, 1.0, 1e-3, dtype), true)},
          {"bias", Var(random_tensor({4}, 42, 1.0, 1e-3, dtype), true)}};
}

// The gradient of step t is that of sum(c_t . p^2) / 2: c_t p.
double coefficient(size_t parameter, size_t i, int64_t t) {
  return std::sin(1.0 + static_cast<double>(i) * 0.7 + static_cast<double>(t) * 0.9 +
                  static_cast<double>(parameter));
}

void make_gradients(const Parameters& parameters, int64_t t, double factor = 1.0) {
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Var& var = parameters[p].var;
    std::vector<double> dy;
    for (int64_t i = 0; i < var.value().numel(); ++i)
      dy.push_back(factor * coefficient(p, static_cast<size_t>(i), t));
    const Var half = scale(multiply(var, var), 0.5);
    backward(half, Tensor::from(dy, var.shape()));
  }
}

// Kingma 2015, algorithm 1; Loshchilov 2019, algorithm 2; Liu 2020, algorithm 2. One number at a
// time.
class Reference {
 public:
  Reference(const OptimizerConfig& config, const Parameters& parameters) : config_(config) {
    for (const Parameter& parameter : parameters) {
      values.push_back(parameter.var.value().to_doubles());
      mean_.emplace_back(values.back().size());
      square_.emplace_back(values.back().size());
    }
  }

  void step(int64_t t, double rate, double factor = 1.0) {
    std::vector<std::vector<double>> gradients = values;
    double squares = 0;
    for (size_t p = 0; p < values.size(); ++p)
      for (size_t i = 0; i < values[p].size(); ++i) {
        gradients[p][i] = factor * coefficient(p, i, t) * values[p][i];
        squares += gradients[p][i] * gradients[p][i];
      }
    norm = std::sqrt(squares);
    const double shrink = config_.clip > 0 && norm > config_.clip ? config_.clip / norm : 1;
    const double T = static_cast<double>(t), b1 = 0.9, b2 = config_.settings.real("beta2");
    for (size_t p = 0; p < values.size(); ++p)
      for (size_t i = 0; i < values[p].size(); ++i) {
        const double g = shrink * gradients[p][i];
        double& m = mean_[p][i];
        double& s = square_[p][i];
        m = b1 * m + (1 - b1) * g;
        s = b2 * s + (1 - b2) * g * g;
        const double m_hat = m / (1 - std::pow(b1, T)), s_hat = s / (1 - std::pow(b2, T));
        double move = m_hat / (std::sqrt(s_hat) + config_.epsilon);
        if (config_.name == "radam") {
          const double rho_inf = 2 / (1 - b2) - 1;
          const double rho = rho_inf - 2 * T * std::pow(b2, T) / (1 - std::pow(b2, T));
          if (rho > 4) {
            move *=
                std::sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
            ++rectified;
          } else {
            move = m_hat;
          }
        }
        const double decay = p == 0 && config_.settings.has("weight_decay")
                                 ? config_.settings.real("weight_decay")
                                 : 0.0;  // the matrix alone
        values[p][i] -= rate * (move + decay * values[p][i]);
      }
  }

  std::vector<std::vector<double>> values;
  double norm = 0;
  int64_t rectified = 0;

 private:
  OptimizerConfig config_;
  std::vector<std::vector<double>> mean_, square_;
};

OptimizerConfig config_of(const std::string& kind, double decay = 0, double clip = 0) {
  OptimizerConfig config;
  config.name = kind;
  config.settings["beta2"] = 0.95;
  if (decay != 0) config.settings["weight_decay"] = decay;
  config.clip = clip;
  return config;
}

TEST(Optimizer, MatchesThePaperForTwentySteps) {
  for (const OptimizerConfig& config :
       {config_of("adamw"), config_of("adamw", 0.3), config_of("adamw", 0.3, 0.5),
        config_of("adam"), config_of("adam", 0, 0.5), config_of("radam"),
        config_of("radam", 0.3, 0.5)}) {
    const Parameters parameters = two_parameters();
    Reference reference(config, parameters);
    Optimizer optimizer(config, parameters);
    for (int64_t t = 1; t <= 20; ++t) {
      const double rate = 0.05 / static_cast<double>(t);
      make_gradients(parameters, t);
      optimizer.step(rate);
      reference.step(t, rate);
      EXPECT_NEAR(optimizer.gradient_norm(), reference.norm, 1e-12 * reference.norm);
    }
    EXPECT_EQ(optimizer.updates(), 20);
    if (config.name == "radam") {
      EXPECT_TRUE(reference.rectified > 0 && reference.rectified < 20 * 16);
    }
    for (size_t p = 0; p < parameters.size(); ++p) {
      const std::vector<double> values = parameters[p].var.value().to_doubles();
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], reference.values[p][i], 1e-12)
            << config.name << " " << parameters[p].name;
    }
  }
}

TEST(Optimizer, DecaysOnlyMatrices) {
  const Parameters parameters = two_parameters();
  const std::vector<double> weight = parameters[0].var.value().to_doubles(),
                            bias = parameters[1].var.value().to_doubles();
  Optimizer optimizer(config_of("adamw", 0.5), parameters);
  make_gradients(parameters, 1, 0.0);
  optimizer.step(0.1);
  for (size_t i = 0; i < weight.size(); ++i)
    EXPECT_NEAR(parameters[0].var.value().to_doubles()[i], 0.95 * weight[i], 1e-15);
  EXPECT_EQ(parameters[1].var.value().to_doubles(), bias);
}

TEST(Optimizer, ClipsByTheNormOfAllGradients) {
  for (const double factor : {0.01, 1000.0}) {
    const Parameters clipped = two_parameters(), by_hand = two_parameters();
    Optimizer with_clip(config_of("adamw", 0, 0.5), clipped), without(config_of("adamw"), by_hand);
    make_gradients(clipped, 3, factor);
    with_clip.step(0.1);
    const double norm = with_clip.gradient_norm();
    EXPECT_EQ(norm > 0.5, factor > 1);
    make_gradients(by_hand, 3, norm > 0.5 ? factor * 0.5 / norm : factor);
    without.step(0.1);
    EXPECT_NEAR(without.gradient_norm(), std::min(norm, 0.5), 1e-12);
    const auto ours = with_clip.moments(), theirs = without.moments();
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_LE(relative_error(ours[i].tensor, theirs[i].tensor), 1e-12);
  }
}

TEST(Optimizer, ClearsGradientsAndNamesMissingOnes) {
  const Parameters parameters = two_parameters();
  Optimizer optimizer(config_of("adamw"), parameters);
  make_gradients(parameters, 1);
  optimizer.step(0.1);
  for (const Parameter& parameter : parameters) EXPECT_FALSE(parameter.var.grad().defined());
  const Parameters first = {parameters[0]};
  make_gradients(first, 2);
  expect_error(ErrorKind::usage, {"bias", "no gradient"}, [&] { optimizer.step(0.1); });
}

// Five good updates, between them ones that must leave no trace.
TEST(Optimizer, AFailedUpdateLeavesNoTrace) {
  for (const std::string kind : {"adamw", "radam"}) {
    const Parameters straight = two_parameters(), disturbed = two_parameters();
    Optimizer one({.name = kind}, straight), other({.name = kind}, disturbed);
    for (int64_t t = 1; t <= 5; ++t) {
      make_gradients(straight, t);
      EXPECT_TRUE(one.step(0.1));
      for (const double bad :
           {std::nan(""), HUGE_VAL, 1e200, 1e6}) {  // 1e200: its square overflows
        make_gradients(disturbed, t, bad);
        EXPECT_FALSE(other.step(0.1, {0, 1e5})) << bad;
        EXPECT_TRUE(disturbed[0].var.grad().defined()) << "to look for what went bad";
        other.clear_gradients();
        EXPECT_EQ(other.updates(), t - 1);
      }
      make_gradients(disturbed, t);
      EXPECT_TRUE(other.step(0.1, {0, 1e5}));
    }
    for (size_t p = 0; p < 2; ++p)
      EXPECT_EQ(straight[p].var.value().to_doubles(), disturbed[p].var.value().to_doubles());
    for (size_t m = 0; m < one.moments().size(); ++m)
      EXPECT_EQ(one.moments()[m].tensor.to_doubles(), other.moments()[m].tensor.to_doubles());
  }
}

TEST(Optimizer, RefusesInvalidSettings) {
  const auto refused = [](std::initializer_list<std::string> fragments,
                          const OptimizerConfig& config) {
    expect_error(ErrorKind::usage, fragments,
                 [&] { const Optimizer optimizer(config, two_parameters()); });
  };
  refused({"'sgd'", "adamw", "radam"}, config_of("sgd"));
  refused({"`weight_decay`", "optimizer adam"}, config_of("adam", 0.1));
  refused({"`weight_decay` is -0.1"}, config_of("adamw", -0.1));
  refused({"`clip` is -1"}, config_of("adamw", 0, -1));
  refused({"`clip` is nan"}, config_of("adamw", 0, NAN));
  OptimizerConfig config;
  config.settings["beta1"] = 1.0;
  refused({"`beta1` is 1", "[0, 1)"}, config);
  config.settings["beta1"] = 0.9;
  config.settings["beta2"] = -0.5;
  refused({"`beta2` is -0.5", "[0, 1)"}, config);
}

TEST(Optimizer, ContinuesFromItsMoments) {
  for (const char* kind : {"adamw", "adam", "radam"}) {
    const OptimizerConfig config = config_of(kind, 0, 0.5);
    const Parameters straight = two_parameters(), halved = two_parameters();
    Optimizer whole(config, straight), first(config, halved);
    std::vector<Optimizer::Moment> saved;
    for (int64_t t = 1; t <= 10; ++t) {
      make_gradients(straight, t);
      whole.step(0.02);
    }
    for (int64_t t = 1; t <= 5; ++t) {
      make_gradients(halved, t);
      first.step(0.02);
    }
    for (const Optimizer::Moment& moment : first.moments())
      saved.push_back({moment.name, moment.tensor.clone()});
    Optimizer second(config, halved);
    second.restore(saved, first.updates());
    for (int64_t t = 6; t <= 10; ++t) {
      make_gradients(halved, t);
      second.step(0.02);
    }
    EXPECT_EQ(second.updates(), 10);
    for (size_t p = 0; p < 2; ++p)
      EXPECT_EQ(straight[p].var.value().to_doubles(), halved[p].var.value().to_doubles()) << kind;
    for (size_t i = 0; i < saved.size(); ++i)
      EXPECT_EQ(whole.moments()[i].tensor.to_doubles(), second.moments()[i].tensor.to_doubles())
          << kind;
  }
}

TEST(Optimizer, NamesMismatchedMoments) {
  const Parameters parameters = two_parameters();
  Optimizer optimizer(config_of("adamw"), parameters);
  std::vector<Optimizer::Moment> moments = optimizer.moments();
  std::vector<std::string> names;
  for (const Optimizer::Moment& moment : moments) names.push_back(moment.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"mean.weight", "square.weight", "mean.bias", "square.bias"}));

  std::vector<Optimizer::Moment> fewer(moments.begin(), moments.end() - 1);
  expect_error(ErrorKind::input, {"square.bias"}, [&] { optimizer.restore(fewer, 1); });
  moments[0].tensor = Tensor::zeros({4, 3}, DType::f64);
  expect_error(ErrorKind::input, {"mean.weight", "[4,3]", "[3,4]"},
               [&] { optimizer.restore(moments, 1); });
  moments[0].tensor = Tensor::zeros({3, 4}, DType::f32);
  expect_error(ErrorKind::input, {"mean.weight", "f32", "f64"},
               [&] { optimizer.restore(moments, 1); });
}

TEST(LearningRate, WarmsUpThenFallsAlongACosine) {
  const double peak = 1e-3, min = 1e-4;
  EXPECT_DOUBLE_EQ(learning_rate_at(0, 100, 9, peak, min), peak / 10);
  EXPECT_DOUBLE_EQ(learning_rate_at(8, 100, 9, peak, min), peak * 0.9);
  EXPECT_DOUBLE_EQ(learning_rate_at(9, 100, 9, peak, min), peak);
  EXPECT_DOUBLE_EQ(learning_rate_at(0, 100, 0, peak, min), peak);
  EXPECT_NEAR(learning_rate_at(50, 100, 0, peak, min), (peak + min) / 2, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate_at(100, 100, 9, peak, min), min);
  EXPECT_DOUBLE_EQ(learning_rate_at(1000, 100, 9, peak, min), min);
  for (int64_t step = 9; step < 100; ++step)
    EXPECT_GT(learning_rate_at(step, 100, 9, peak, min),
              learning_rate_at(step + 1, 100, 9, peak, min));
  for (int64_t step = 0; step < 20; ++step)  // a warm-up longer than the run
    EXPECT_DOUBLE_EQ(learning_rate_at(step, 20, 100, peak, min),
                     peak * static_cast<double>(step + 1) / 101);
}

}  // namespace
}  // namespace linea
