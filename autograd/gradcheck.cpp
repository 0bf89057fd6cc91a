#include "autograd/gradcheck.h"

#include <cmath>
#include <numeric>

#include "base/random.h"

namespace linea {

Tensor random_tensor(const Shape& shape, uint32_t stream_id, double stddev, double away,
                     DType dtype) {
  const RandomStream stream{20200630, Purpose::test, stream_id, 0};
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = stddev * random_normal(stream, i);
    values[i] = std::abs(x) < away ? (x < 0 ? x - away : x + away) : x;
  }
  return Tensor::from(values, shape, dtype);
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
  std::vector<Var> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input, true);
  return gradcheck_leaves([&] { return f(leaves); }, leaves, stream_id);
}

GradcheckResult gradcheck_leaves(const std::function<Var()>& f, std::vector<Var> leaves,
                                 uint32_t stream_id) {
  for (Var& leaf : leaves) leaf.clear_grad();
  const Var y = f();
  const Tensor seed = random_tensor(y.shape(), stream_id, 1.0, 0.0);
  backward(y, seed);
  const std::vector<double> cotangent = seed.to_vector<double>();
  const NoGrad no_grad;
  GradcheckResult result;
  for (size_t which = 0; which < leaves.size(); ++which) {
    Var& leaf = leaves[which];
    const Tensor own = leaf.value();
    const std::vector<double> at = own.to_vector<double>();
    std::vector<double> numeric(at.size());
    for (size_t i = 0; i < at.size(); ++i) {
      constexpr double kStep = 4e-4;
      const auto probe = [&](double offset) {
        std::vector<double> moved = at;
        moved[i] += offset;
        leaf.set_value(Tensor::from(moved, own.shape()));
        const std::vector<double> values = f().value().to_doubles();
        return std::inner_product(values.begin(), values.end(), cotangent.begin(), 0.0);
      };
      numeric[i] = (8 * (probe(kStep) - probe(-kStep)) - (probe(2 * kStep) - probe(-2 * kStep))) /
                   (12 * kStep);
    }
    leaf.set_value(own);
    const Tensor analytic =
        leaf.grad().defined() ? leaf.grad() : Tensor::zeros(own.shape(), DType::f64);
    const double error = relative_error(analytic, Tensor::from(numeric, own.shape()), 1e-3);
    if (result.worst_input < 0 || error > result.error || std::isnan(error))
      result = {error, static_cast<int>(which)};
  }
  return result;
}

}  // namespace linea
