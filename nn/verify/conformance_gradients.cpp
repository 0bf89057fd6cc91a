// Conformance: gradients are those of finite differences, and hold their precision over a long
// sequence.
#include "autograd/ops.h"
#include "nn/verify/conformance_checks.h"

namespace linea::conformance {

std::vector<Worst> differences(const Subject& subject) {
  Worst worst;
  for (const int64_t length : {1, 9}) {
    const Sizes sizes{1, 2, length, 3, 4};
    // Far enough from the kink of relu + 1e-3, where 1 / phi bends too fast for a difference.
    const Inputs x = draw(sizes, DType::f64, subject.stddev(), 1, 0.1);
    const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f64, 4, 2);
    const AttentionInputs in = inputs_for(*attention, x, true);
    Parameters probed = attention->parameters();
    probed.push_back({"v", in.v});
    const AttentionTraits& traits = attention->traits();
    if (traits.reads_queries) probed.push_back({"q", in.q});
    if (traits.reads_keys && !traits.straight_through)
      probed.push_back({"k", in.k});  // else dk is not the gradient of k
    if (in.gate.defined()) probed.push_back({"gate", in.gate});
    std::vector<Var> leaves;
    for (const Parameter& leaf : probed) leaves.push_back(leaf.var);
    for (const auto& [mask, direction] : subject.masks()) {
      Decisions decisions;  // are held
      {
        const RecordDecisions record(decisions);
        attention->forward(in, mask);
      }
      const auto forward = [&, &mask = mask] {
        const ReplayDecisions replay(decisions);
        return attention->forward(in, mask);
      };
      const GradcheckResult result = gradcheck_leaves(forward, leaves);
      worst.take(result.error, fmt::format("d{}, {} positions, {}",
                                           probed[static_cast<size_t>(result.worst_input)].name,
                                           length, direction));
    }
  }
  return {worst};
}

std::vector<Worst> long_gradient(const Subject& subject) {
  // A quarter, where time is N^2.
  const Sizes sizes{1, 1, subject.kind->traits().state_growth > 0 ? 4096 : 16384, 8, 8};
  const Inputs x = draw(sizes, DType::f32, subject.stddev());
  const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f32),
                                   precise = subject.make_attention(sizes, DType::f64);
  const Outcome expected =
      run(*precise, &Attention::forward, in_dtype(x, DType::f64), subject.mask());
  Outcome found = run(*attention, &Attention::forward, x, subject.mask());
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
