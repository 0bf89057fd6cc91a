#include "autograd/gradcheck.h"

#include <cmath>

#include "tensor/random.h"

namespace linea {
namespace {

constexpr uint64_t kSeed = 20200630;

double weighted_sum(const Function& f, const std::vector<Var>& inputs,
                    const std::vector<double>& cotangent) {
  const std::vector<double> y = f(inputs).value().to_doubles();
  double total = 0;
  for (size_t i = 0; i < y.size(); ++i) total += y[i] * cotangent[i];
  return total;
}

}  // namespace

Tensor random_tensor(const Shape& shape, uint32_t stream_id, double stddev, double away,
                     DType dtype) {
  const RandomStream stream{kSeed, Purpose::test, stream_id, 0};
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = stddev * random_normal(stream, i);
    values[i] = std::abs(x) < away ? (x < 0 ? x - away : x + away) : x;
  }
  if (dtype == DType::f64) return Tensor::from(values, shape);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

double relative_error(const Tensor& a, const Tensor& b, double min) {
  require(a.shape() == b.shape(), "relative_error: shapes {} and {} differ", a.shape(), b.shape());
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double difference = 0, largest = min;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - y[i]);
    difference = error > difference || std::isnan(error) ? error : difference;
    largest = std::max(largest, std::abs(y[i]));
  }
  return largest > 0 ? difference / largest : difference;
}

GradcheckResult gradcheck(const Function& f, const std::vector<Tensor>& inputs,
                          uint32_t stream_id) {
  std::vector<Var> vars;
  for (const Tensor& input : inputs) vars.emplace_back(input.clone(), true);
  const Var y = f(vars);
  const Tensor seed = random_tensor(y.shape(), stream_id, 1.0, 0.0);
  backward(y, seed);
  const std::vector<double> cotangent = seed.to_vector<double>();
  const NoGrad no_grad;
  GradcheckResult result;
  for (size_t which = 0; which < inputs.size(); ++which) {
    const std::vector<double> at = inputs[which].to_vector<double>();
    std::vector<double> numeric(at.size());
    for (size_t i = 0; i < at.size(); ++i) {
      constexpr double kStep = 4e-4;
      const auto probe = [&](double offset) {
        std::vector<double> moved = at;
        moved[i] += offset;
        vars[which].set_value(Tensor::from(moved, inputs[which].shape()));
        return weighted_sum(f, vars, cotangent);
      };
      numeric[i] = (8 * (probe(kStep) - probe(-kStep)) - (probe(2 * kStep) - probe(-2 * kStep))) /
                   (12 * kStep);
    }
    vars[which].set_value(inputs[which].clone());
    const Tensor expected = Tensor::from(numeric, inputs[which].shape());
    const Tensor analytic = vars[which].grad().defined()
                                ? vars[which].grad()
                                : Tensor::zeros(inputs[which].shape(), DType::f64);
    const double error = relative_error(analytic, expected, 1e-3);
    if (result.worst_input < 0 || error > result.error || std::isnan(error))
      result = {error, static_cast<int>(which)};
  }
  return result;
}

}  // namespace linea
