// Muon against a plain reference in double, and what distinguishes it from other optimizers.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "nn/optimizer.h"
#include "tensor/context.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  return t;
}

// X = U / (|U| + 1e-7), five times X = a X + (b A + c A A) X with A = X X^T  (Jordan 2024)
Matrix reference_direction(Matrix x) {
  if (x.size() > x[0].size()) return transposed(reference_direction(transposed(x)));
  double squares = 0;
  for (const auto& row : x)
    for (const double value : row) squares += value * value;
  for (auto& row : x)
    for (double& value : row) value /= std::sqrt(squares) + 1e-7;
  for (int iteration = 0; iteration < 5; ++iteration) {
    const Matrix gram = product(x, transposed(x)), square = product(gram, gram);
    Matrix factor = gram;
    for (size_t i = 0; i < gram.size(); ++i)
      for (size_t j = 0; j < gram.size(); ++j)
        factor[i][j] = -4.7750 * gram[i][j] + 2.0315 * square[i][j];
    const Matrix change = product(factor, x);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[0].size(); ++j) x[i][j] = 3.4445 * x[i][j] + change[i][j];
  }
  return x;
}

Parameter matrix_parameter(const std::string& name, const Shape& shape, uint32_t stream_id,
                           int64_t matrices, DType dtype = DType::f64) {
  return {name, Var(random_tensor(shape, stream_id, 1.0, 1e-3, dtype), true), false, matrices};
}

// The gradient of each parameter becomes `factor` times random numbers.
void set_gradients(const Parameters& parameters, uint32_t stream_id, double factor = 1) {
  for (const Parameter& parameter : parameters) {
    const Tensor random =
        random_tensor(parameter.var.shape(), stream_id++, factor, 0, parameter.var.dtype());
    backward(add(parameter.var, parameter.var), random);  // twice these numbers
  }
}

OptimizerConfig muon_config(Settings settings = {}) {
  return {.name = "muon", .settings = std::move(settings), .clip = 0, .peak = 1e-3};
}

std::vector<double> values_of(const Parameter& parameter) {
  return parameter.var.value().to_doubles();
}

// A matrix that is wide, one that is tall, three packed in one parameter, and two parameters that
// AdamW trains.
Parameters five_parameters(DType dtype = DType::f64) {
  return {
      matrix_parameter("up", {4, 6}, 1, 1, dtype), matrix_parameter("down", {7, 3}, 2, 1, dtype),
      matrix_parameter("qkv", {9, 3}, 3, 3, dtype), matrix_parameter("table", {5, 3}, 4, 0, dtype),
      matrix_parameter("bias", {3}, 5, 0, dtype)};
}

TEST(Muon, MatchesTheFormulaForTwentySteps) {
  const double momentum = 0.9, decay = 0.2, ratio = 0.05 / 1e-3;
  const Parameters parameters = five_parameters(), others = five_parameters();
  const Parameters adam_parameters = {others[3], others[4]};
  Optimizer optimizer(
      muon_config({{"muon_lr", 0.05}, {"muon_momentum", momentum}, {"weight_decay", decay}}),
      parameters);
  Optimizer adam({.settings = {{"weight_decay", decay}}, .clip = 0}, adam_parameters);
  std::vector<std::vector<double>> expected, moments(3);
  for (size_t p = 0; p < 3; ++p) {
    expected.push_back(values_of(parameters[p]));
    moments[p].resize(expected[p].size());
  }
  for (uint32_t t = 0; t < 20; ++t) {
    const double rate = 1e-3 / (1 + t);
    set_gradients(parameters, 100 + 10 * t);
    set_gradients(adam_parameters, 103 + 10 * t);
    for (size_t p = 0; p < 3; ++p) {
      const std::vector<double> g = parameters[p].var.grad().to_doubles();
      const auto count = static_cast<size_t>(parameters[p].matrices),
                 rows = static_cast<size_t>(parameters[p].var.size(0)) / count,
                 cols = static_cast<size_t>(parameters[p].var.size(1));
      for (size_t matrix = 0; matrix < count; ++matrix) {
        Matrix u(rows, std::vector<double>(cols));
        const auto index = [&](size_t i, size_t j) { return (matrix * rows + i) * cols + j; };
        for (size_t i = 0; i < rows; ++i)
          for (size_t j = 0; j < cols; ++j) {
            double& m = moments[p][index(i, j)];
            m += (1 - momentum) * (g[index(i, j)] - m);
            u[i][j] = g[index(i, j)] + momentum * (m - g[index(i, j)]);
          }
        const Matrix x = reference_direction(u);
        const double stretch =
            std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(cols)));
        for (size_t i = 0; i < rows; ++i)
          for (size_t j = 0; j < cols; ++j) {
            double& w = expected[p][index(i, j)];
            w = w * (1 - ratio * rate * decay) - ratio * rate * stretch * x[i][j];
          }
      }
    }
    optimizer.step(rate);
    adam.step(rate);
  }
  for (size_t p = 0; p < 3; ++p)
    for (size_t i = 0; i < expected[p].size(); ++i)
      EXPECT_NEAR(values_of(parameters[p])[i], expected[p][i], 1e-12) << parameters[p].name;
  for (size_t p = 3; p < 5; ++p) EXPECT_EQ(values_of(parameters[p]), values_of(others[p]));
}

// Whether a - bound I is positive definite, by Cholesky.
bool exceeds(Matrix a, double bound, double sign = 1) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (double& value : a[i]) value *= sign;
    a[i][i] -= sign * bound;
  }
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      if (i == j && !(sum > 0)) return false;
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  return true;
}

// The change that one step of learning rate 1 makes, as a matrix; float, as in training.
Matrix change_of_step(const Shape& shape, double factor = 1) {
  const Parameters parameters = {matrix_parameter("w", shape, 6, 1, DType::f32)};
  parameters[0].var.value().write(std::vector<float>(static_cast<size_t>(shape.numel())).data());
  Optimizer optimizer({.name = "muon", .settings = {{"muon_lr", 1.0}}, .clip = 1, .peak = 1.0},
                      parameters);
  set_gradients(parameters, 7, factor);
  EXPECT_TRUE(optimizer.step(1.0));
  const std::vector<double> values = values_of(parameters[0]);
  Matrix change;
  for (int64_t i = 0; i < shape[0]; ++i)
    change.emplace_back(values.begin() + i * shape[1], values.begin() + (i + 1) * shape[1]);
  return change;
}

TEST(Muon, SingularValuesAreNearOne) {
  const Matrix wide = change_of_step({64, 256});
  const Matrix gram = product(wide, transposed(wide));
  EXPECT_TRUE(exceeds(gram, 0.6 * 0.6));
  EXPECT_TRUE(exceeds(gram, 1.3 * 1.3, -1));
  EXPECT_FALSE(exceeds(gram, 1.0)) << "the bounds would notice";
  const Matrix tall = change_of_step({256, 64});  // times sqrt(256 / 64)
  const Matrix of_tall = product(transposed(tall), tall);
  EXPECT_TRUE(exceeds(of_tall, 4 * 0.6 * 0.6));
  EXPECT_TRUE(exceeds(of_tall, 4 * 1.3 * 1.3, -1));
}

TEST(Muon, DoesNotDependOnTheScaleOfGradients) {
  const Matrix one = change_of_step({16, 24}), thousand = change_of_step({16, 24}, 1000);
  for (size_t i = 0; i < one.size(); ++i)
    for (size_t j = 0; j < one[0].size(); ++j) EXPECT_NEAR(one[i][j], thousand[i][j], 1e-6);
  const Matrix nothing = change_of_step({16, 24}, 0);
  for (const auto& row : nothing)
    for (const double value : row) EXPECT_EQ(value, 0);
}

// Two steps, the second with large gradients: as without clipping by gradients that were scaled.
TEST(Muon, ClipsAllGradientsByTheirGlobalNorm) {
  const double clip = 0.5;
  const Parameters parameters = five_parameters(), others = five_parameters();
  OptimizerConfig config = muon_config();
  config.clip = clip;
  Optimizer clipping(config, parameters), plain(muon_config(), others);
  for (const double factor : {1e-3, 100.0}) {
    set_gradients(parameters, 11, factor);
    double squares = 0;
    for (const Parameter& parameter : parameters)
      for (const double g : parameter.var.grad().to_doubles()) squares += g * g;
    const double norm = std::sqrt(squares);
    EXPECT_EQ(norm > clip, factor > 1);
    set_gradients(others, 11, factor * std::min(1.0, clip / norm));
    clipping.step(0.1);
    EXPECT_NEAR(clipping.gradient_norm(), norm, 1e-12 * norm);
    plain.step(0.1);
  }
  for (size_t m = 0; m < clipping.moments().size(); ++m) {
    const std::vector<double> got = clipping.moments()[m].tensor.to_doubles(),
                              expected = plain.moments()[m].tensor.to_doubles();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 1e-12) << clipping.moments()[m].name;
  }
  for (size_t p = 0; p < parameters.size(); ++p)
    for (size_t i = 0; i < values_of(parameters[p]).size(); ++i)
      EXPECT_NEAR(values_of(parameters[p])[i], values_of(others[p])[i], 1e-9) << parameters[p].name;
}

TEST(Muon, AFailedUpdateLeavesNoTrace) {
  const Parameters parameters = five_parameters();
  Optimizer optimizer(muon_config(), parameters);
  set_gradients(parameters, 20);
  optimizer.step(0.1);
  std::vector<std::vector<double>> before;
  for (const Parameter& parameter : parameters) before.push_back(values_of(parameter));
  for (const auto& moment : optimizer.moments()) before.push_back(moment.tensor.to_doubles());
  for (size_t bad = 0; bad < parameters.size(); ++bad) {
    set_gradients(parameters, 30);
    set_gradients({parameters[bad]}, 40, INFINITY);
    EXPECT_FALSE(optimizer.step(0.1)) << parameters[bad].name;
    optimizer.clear_gradients();
    std::vector<std::vector<double>> after;
    for (const Parameter& parameter : parameters) after.push_back(values_of(parameter));
    for (const auto& moment : optimizer.moments()) after.push_back(moment.tensor.to_doubles());
    EXPECT_EQ(before, after) << parameters[bad].name;
  }
}

// Three matrices in one parameter [3 dim, dim] and in three give the same bits, at any number of
// threads.
TEST(Muon, PackedMatricesAndThreadsGiveTheSameBits) {
  const Shape whole{3 * 48, 48}, third{48, 48};
  std::vector<double> first;
  const int threads_before = context().threads;
  for (const int threads : {1, 2})
    for (const bool packed : {true, false}) {
      set_threads(threads);
      const Tensor all = random_tensor(whole, 8, 1.0, 1e-3, DType::f32);
      Parameters parameters;
      if (packed) {
        parameters = {{"qkv", Var(all, true), false, 3}};
      } else {
        for (const int64_t i : {0, 1, 2})
          parameters.push_back({"w", Var(all.rows(48 * i, 48).clone(), true), false, 1});
      }
      Optimizer optimizer(muon_config(), parameters);
      for (uint32_t t = 0; t < 3; ++t) {
        const Tensor gradient = random_tensor(whole, 50 + t, 1.0, 0, DType::f32);
        for (size_t i = 0; i < parameters.size(); ++i)
          backward(scale(parameters[i].var, 1.0),
                   packed ? gradient : gradient.rows(48 * static_cast<int64_t>(i), 48).clone());
        optimizer.step(1e-3);
      }
      std::vector<double> values;
      for (const Parameter& parameter : parameters)
        for (const double value : values_of(parameter)) values.push_back(value);
      if (first.empty()) first = values;
      EXPECT_EQ(values, first) << threads << packed;
    }
  set_threads(threads_before);
}

TEST(Muon, ContinuesFromItsMomentsAloneAndNamesThoseOfAnotherOptimizer) {
  const Parameters straight = five_parameters(), halved = five_parameters();
  Optimizer whole(muon_config(), straight), first(muon_config(), halved);
  const auto step = [](Optimizer& optimizer, const Parameters& parameters, uint32_t t) {
    set_gradients(parameters, 60 + 10 * t);
    optimizer.step(0.01);
  };
  for (uint32_t t = 0; t < 6; ++t) step(whole, straight, t);
  for (uint32_t t = 0; t < 3; ++t) step(first, halved, t);
  Optimizer second(muon_config(), halved), adam({}, halved);
  second.restore(first.moments(), first.updates());
  for (uint32_t t = 3; t < 6; ++t) step(second, halved, t);
  for (size_t p = 0; p < straight.size(); ++p)
    EXPECT_EQ(values_of(straight[p]), values_of(halved[p])) << straight[p].name;
  EXPECT_EQ(first.moments()[2].name, "momentum.qkv");
  EXPECT_EQ(first.moments().size(), 7u);
  expect_error(ErrorKind::input, {"mean.up", "`optimizer`"},
               [&] { adam.restore(first.moments(), 1); });
  expect_error(ErrorKind::input, {"momentum.up"}, [&] { second.restore(adam.moments(), 1); });
}

}  // namespace
}  // namespace linea
