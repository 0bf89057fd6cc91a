// Conformance: gradients are those of finite differences, and hold their precision over a long
// sequence.
#include "autograd/ops.h"
#include "nn/verify/conformance_checks.h"

namespace linea::conformance {
namespace {

// A parameter's gradient against the five-point difference of cotangent . y, element by element.
double parameter_error(const Attention& attention, Var parameter, const Inputs& x,
                       const AttentionMask& mask) {
  const Tensor own = parameter.value();
  const auto gates = gates_for(attention, x.gate);
  const AttentionInputs in{Var(x.q), Var(x.k), Var(x.v), gates.defined() ? Var(gates) : Var()};
  parameter.clear_grad();
  backward(attention.forward(in, mask), x.dy);
  const Tensor analytic = parameter.grad();
  const NoGrad no_grad;
  const std::vector<double> values = own.to_doubles(), cotangent = x.dy.to_doubles();
  std::vector<double> numeric(values.size());
  constexpr double kStep = 4e-4;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = [&](double offset) {
      std::vector<double> moved = values;
      moved[i] += offset;
      parameter.set_value(Tensor::from(moved, own.shape()));
      const std::vector<double> y = attention.forward(in, mask).value().to_doubles();
      double total = 0;
      for (size_t j = 0; j < y.size(); ++j) total += y[j] * cotangent[j];
      return total;
    };
    numeric[i] = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
  }
  parameter.set_value(own);
  return relative_error(analytic, Tensor::from(numeric, own.shape()), 1e-3);
}

}  // namespace

std::vector<Worst> differences(const Subject& subject) {
  Worst worst;
  for (const int64_t length : {1, 9}) {
    const Sizes sizes{1, 2, length, 3, 4};
    // Far enough from the kink of relu + 1e-3, where 1 / phi bends too fast for a difference.
    const Inputs x = draw(sizes, DType::f64, subject.stddev(), 1, 0.1);
    const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f64, 4, 2);
    for (const bool causal : subject.directions()) {
      const AttentionMask mask{causal, {}};
      const bool probes_k = !attention->straight_through();  // else dk is not the gradient of k
      std::vector<Tensor> inputs = {x.q, x.v};
      std::vector<std::string> names = {"q", "v"};
      if (probes_k) inputs.push_back(x.k), names.push_back("k");
      if (attention->gated()) inputs.push_back(x.gate), names.push_back("gate");
      const std::string where =
          fmt::format("{} positions, {}", length, causal ? "causal" : "not causal");
      const auto all = [&](const std::vector<Var>& in) {
        AttentionInputs taken{in[0], probes_k ? in[2] : Var(x.k), in[1], Var()};
        if (attention->gated()) taken.gate = reshape(in.back(), {sizes.batch, sizes.heads, length});
        return attention->forward(taken, mask);
      };
      const GradcheckResult result = gradcheck(all, inputs);
      worst.take(result.error, "d" + names[static_cast<size_t>(result.worst_input)] + ", " + where);
      for (const Parameter& parameter : attention->parameters())
        worst.take(parameter_error(*attention, parameter.var, x, mask),
                   "d" + parameter.name + ", " + where);
    }
  }
  return {worst};
}

std::vector<Worst> long_gradient(const Subject& subject) {
  const Sizes sizes{1, 1, subject.state_grows() ? 4096 : 16384, 8,
                    8};  // a quarter, where time is N^2
  const Inputs x = draw(sizes, DType::f32, subject.stddev());
  const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f32),
                                   precise = subject.make_attention(sizes, DType::f64);
  const Outcome expected = run(*precise, &Attention::forward, in_dtype(x, DType::f64), {});
  Outcome found = run(*attention, &Attention::forward, x, {});
  const std::string where = fmt::format("{} positions", sizes.length);
  const double all =
      gradient_error(found, expected);  // a gate's and a parameter's are sums over all positions
  found.dgate = Tensor();
  found.dparameters.clear();
  return {{relative_error(found.y, expected.y), where},
          {gradient_error(found, expected), where},
          {all, where}};
}

}  // namespace linea::conformance
