// Conformance: nothing leaks from the future, from padding or from other sequences, and two runs
// give the same bits.
#include <limits>

#include "nn/verify/conformance_checks.h"

namespace linea::conformance {

// Outputs up to t keep their bits whatever follows t, and a loss of the outputs up to t has no
// gradient after t.
std::vector<Worst> causality(const Subject& subject) {
  Worst outputs, gradients;
  Sizes sizes;
  sizes.length = 300;
  const Inputs x = draw(sizes, DType::f32), wild = draw(sizes, DType::f32, 100.0, 11);
  const Tensor nothing = Tensor::zeros(x.dy.shape(), DType::f32);
  const Tensor wild_values = ops::scale(wild.v, 100.0);
  const AttentionMask mask{true, {}};
  subject.with_cuts(sizes, DType::f32, [&](const Attention& attention, const std::string& cut) {
    const auto other_gates = [&](const Attention& one, const auto& later) {
      const Tensor gates = gates_for(one, blend(x.gate, wild.gate, later));
      return gates.defined() ? Var(gates) : Var();
    };
    const Tensor before = run(attention, &Attention::forward, x, mask).y;
    for (const int64_t last : {0, 15, 16, 31, 32, 39, 40, 63, 64, 119, 255, 256, 298}) {
      const auto later = [&](int64_t, int64_t n) { return n > last; };
      const auto earlier = [&](int64_t, int64_t n) { return n <= last; };
      const std::string where = fmt::format("position {}, {}", last, cut);
      const NoGrad no_grad;
      const Tensor after =
          attention
              .forward({Var(blend(x.q, wild.q, later)), Var(blend(x.k, wild.k, later)),
                        Var(blend(x.v, wild_values, later)), other_gates(attention, later)},
                       mask)
              .value();
      outputs.take(different_bits(before, after, earlier), where);
    }
    for (const int64_t last : {0, 16, 39, 63, 255}) {
      const auto later = [&](int64_t, int64_t n) { return n > last; };
      const Inputs read = x.with_dy(blend(x.dy, nothing, later));
      const Outcome found = run(attention, &Attention::forward, read, mask);
      for (const Tensor& gradient : {found.dq, found.dk, found.dv})
        gradients.take(largest(gradient, later), fmt::format("position {}, {}", last, cut));
    }
  });
  return {outputs, gradients};
}

// Against the definition, every row; and each sequence against itself without its padding.
std::vector<Worst> padding(const Subject& subject) {
  Worst outputs, cut_off;
  const Sizes sizes{6, 2, 97, 5, 7};
  const std::vector<int64_t> counts = padded_counts();
  const auto is_padding = [&](int64_t b, int64_t n) { return n >= counts[static_cast<size_t>(b)]; };
  const Inputs x = draw(sizes, DType::f64);
  const Tensor nothing = Tensor::zeros(x.dy.shape(), DType::f64);
  for (const bool causal : subject.directions()) {
    const AttentionMask mask = padded_mask(causal);
    const Outcome expected =
        run(*subject.make_attention(sizes, DType::f64), &Attention::quadratic, x, mask);
    subject.with_cuts(sizes, DType::f64, [&](const Attention& attention, const std::string& cut) {
      const std::string where = (causal ? "causal, " : "not causal, ") + cut;
      const Outcome found = run(attention, &Attention::forward, x, mask);
      outputs.take(relative_error(found.y, expected.y), where);
      // With one key y = v: gradients are 0 but for rounding divided by a_ij, which may be tiny.
      const auto several = [&](const Tensor& t) { return pick(t, {0, 1, 3, 4, 5}, {0, 1}, 97); };
      outputs.take(gradient_error(select_rows(found, several), select_rows(expected, several)),
                   where + ", gradients");
      const Inputs read = x.with_dy(blend(x.dy, nothing, is_padding));
      const Outcome padded = run(attention, &Attention::forward, read, mask);
      for (int64_t b = 0; b < sizes.batch; ++b) {
        const int64_t length = counts[static_cast<size_t>(b)];
        const std::string which = fmt::format("{}, {} of 97 keys", where, length);
        if (length == 0) {
          cut_off.take(largest(padded.y, [&](int64_t other, int64_t) { return other == b; }),
                       which);
          continue;
        }
        const auto alone = [&](const Tensor& t) { return pick(t, {b}, {0, 1}, length); };
        const Outcome one =
            run(attention, &Attention::forward, select_rows(x, alone), {causal, {}});
        cut_off.take(relative_error(alone(padded.y), one.y), which);
        cut_off.take(gradient_error(select_rows(padded, alone), one), which + ", gradients");
      }
    });
  }
  return {outputs, cut_off};
}

// Padded keys and values may hold anything: large numbers, NaN.
std::vector<Worst> padded_values(const Subject& subject) {
  Worst outputs, gradients;
  const Sizes sizes{6, 2, 97, 5, 7};
  const std::vector<int64_t> counts = padded_counts();
  const auto is_padding = [&](int64_t b, int64_t n) { return n >= counts[static_cast<size_t>(b)]; };
  const auto anywhere = [](int64_t, int64_t) { return true; };
  const Inputs x = draw(sizes, DType::f32), wild = draw(sizes, DType::f32, 100.0, 11);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor nan_keys = Tensor::full(x.k.shape(), DType::f32, nan);
  const Tensor nan_values = Tensor::full(x.v.shape(), DType::f32, nan);
  const Tensor nan_gates = Tensor::full(x.gate.shape(), DType::f32, nan);
  for (const bool causal : subject.directions()) {
    const AttentionMask mask = padded_mask(causal);
    subject.with_cuts(sizes, DType::f32, [&](const Attention& attention, const std::string& cut) {
      const Outcome before = run(attention, &Attention::forward, x, mask);
      const auto change = [&](const Tensor& keys, const Tensor& values, const Tensor& gates,
                              const std::string& what) {
        const std::string where = what + (causal ? ", causal, " : ", not causal, ") + cut;
        const Inputs changed{x.q, blend(x.k, keys, is_padding), blend(x.v, values, is_padding),
                             x.dy, blend(x.gate, gates, is_padding)};
        const Outcome after = run(attention, &Attention::forward, changed, mask);
        outputs.take(different_bits(before.y, after.y, anywhere), where);
        outputs.take(different_bits(before.dq, after.dq, anywhere), where + ", dq");
        gradients.take(largest(after.dk, is_padding), where + ", dk");
        gradients.take(largest(after.dv, is_padding), where + ", dv");
        if (after.dgate.defined())
          gradients.take(largest(after.dgate, is_padding), where + ", dgate");
        for (const Tensor& grad : after.dparameters)
          gradients.take(static_cast<double>(ops::count_nonfinite(grad)),
                         where + ", parameters not finite");
      };
      change(wild.k, wild.v, wild.gate, "wild");
      change(nan_keys, nan_values, nan_gates, "NaN");
    });
  }
  return {outputs, gradients};
}

// The same sequences in another order and alone, the same heads in another order.
std::vector<Worst> independence(const Subject& subject) {
  Worst worst;
  const Sizes sizes{3, 2, 97, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f64);
  for (const bool causal : subject.directions()) {
    const AttentionMask mask{causal, {}};
    const Outcome all = run(*attention, &Attention::forward, x, mask);
    const auto compare = [&](const std::vector<int64_t>& batches, const std::vector<int64_t>& heads,
                             const std::string& where) {
      const auto chosen = [&](const Tensor& t) { return pick(t, batches, heads, sizes.length); };
      const Outcome some = run(*attention, &Attention::forward, select_rows(x, chosen), mask);
      worst.take(relative_error(some.y, chosen(all.y)), where);
      worst.take(gradient_error(some, select_rows(all, chosen)), where);
    };
    compare({2, 0, 1}, {0, 1}, "sequences in another order");
    compare({1}, {0, 1}, "one sequence alone");
    if (!subject.heads_differ()) compare({0, 1, 2}, {1, 0}, "heads in another order");
  }
  return {worst};
}

std::vector<Worst> determinism(const Subject& subject) {
  Worst worst;
  const Threads threads(2);
  Sizes sizes;
  const Inputs x = draw(sizes, DType::f32);
  const auto anywhere = [](int64_t, int64_t) { return true; };
  for (const bool causal : subject.directions()) {
    subject.with_cuts(sizes, DType::f32, [&](const Attention& attention, const std::string& cut) {
      const Outcome one = run(attention, &Attention::forward, x, {causal, {}});
      const Outcome two = run(attention, &Attention::forward, x, {causal, {}});
      worst.take(different_bits(one.y, two.y, anywhere), "y, " + cut);
      worst.take(different_bits(one.dq, two.dq, anywhere), "dq, " + cut);
      worst.take(different_bits(one.dk, two.dk, anywhere), "dk, " + cut);
      worst.take(different_bits(one.dv, two.dv, anywhere), "dv, " + cut);
      if (one.dgate.defined())
        worst.take(different_bits(one.dgate, two.dgate, anywhere), "dgate, " + cut);
      for (size_t i = 0; i < one.dparameters.size(); ++i)
        worst.take(relative_error(one.dparameters[i], two.dparameters[i]), "parameters, " + cut);
    });
  }
  return {worst};
}

}  // namespace linea::conformance
