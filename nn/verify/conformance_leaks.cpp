// Conformance: nothing leaks from the future, from padding or from other sequences, and two runs
// give the same bits.
#include <limits>

#include "nn/verify/conformance_checks.h"

namespace linea::conformance {
namespace {

// Six sequences of 97 positions, with all, no, one and some keys around a border of segments of 40.
struct Padded {
  Sizes sizes{6, 2, 97, 5, 7};
  std::vector<int32_t> keys = {97, 0, 1, 40, 41, 96};
  Tensor valid = Tensor::from(keys, {6});
  bool operator()(int64_t b, int64_t n) const { return n >= keys[static_cast<size_t>(b)]; }
};

Tensor zeros_like(const Tensor& x) { return Tensor::zeros(x.shape(), x.dtype()); }

}  // namespace

// Outputs up to t keep their bits whatever follows t, and a loss of the outputs up to t has no
// gradient after t.
std::vector<Worst> causality(const Subject& subject) {
  Worst outputs, gradients;
  const Sizes sizes{.length = 300};
  const Inputs x = draw(sizes, DType::f32);
  Inputs wild = draw(sizes, DType::f32, 100.0, 11);
  wild.v = ops::scale(wild.v, 100.0);
  const AttentionMask mask{true, {}};
  for (const auto& [attention, cut] : subject.cuts(sizes, DType::f32)) {
    const Tensor before = run(*attention, &Attention::forward, x, mask).y;
    std::vector<int64_t> cut_at = {0, 32, 39, 63, 64, 119, 256, 298};
    for (int64_t last = 1; last < 299 && !subject.options.quick; last += 5) cut_at.push_back(last);
    for (const int64_t last : cut_at) {
      const auto later = [&](int64_t, int64_t n) { return n > last; };
      const auto earlier = [&](int64_t, int64_t n) { return n <= last; };
      const Inputs changed{blend(x.q, wild.q, later), blend(x.k, wild.k, later),
                           blend(x.v, wild.v, later), x.dy, blend(x.gate, wild.gate, later)};
      const Var after = attention->forward(inputs_for(*attention, changed, false), mask);
      outputs.take(different_bits(before, after.value(), earlier),
                   fmt::format("position {}{}", last, cut));
    }
    for (const int64_t last : {16, 39, 63, 255}) {
      if (subject.options.quick && last == 16) continue;
      const auto later = [&](int64_t, int64_t n) { return n > last; };
      const Inputs read = x.with_dy(blend(x.dy, zeros_like(x.dy), later));
      for (const auto& [name, gradient] :
           run(*attention, &Attention::forward, read, mask).gradients())
        gradients.take(largest(gradient, later), fmt::format("{}, position {}{}", name, last, cut));
    }
  }
  return {outputs, gradients};
}

// Against the definition, every row; and each sequence against itself without its padding.
std::vector<Worst> padding(const Subject& subject) {
  Worst outputs, cut_off;
  const Padded padded;
  const Sizes& sizes = padded.sizes;
  const Inputs x = draw(sizes, DType::f64);
  const Inputs read = x.with_dy(blend(x.dy, zeros_like(x.dy), padded));
  for (const auto& [mask, direction] : subject.masks(padded.valid)) {
    const Outcome expected =
        run(*subject.make_attention(sizes, DType::f64), &Attention::quadratic, x, mask);
    for (const auto& [attention, cut] : subject.cuts(sizes, DType::f64)) {
      const std::string where = direction + cut;
      const Outcome found = run(*attention, &Attention::forward, x, mask);
      outputs.take(relative_error(found.y, expected.y), where);
      // With one key y = v: gradients are 0 up to rounding divided by a_ij, which may be tiny.
      const auto several = [&](const Tensor& t) { return pick(t, {0, 1, 3, 4, 5}, {0, 1}, 97); };
      outputs.take(gradient_error(found.map(several), expected.map(several)),
                   where + ", gradients");
      const Outcome all = run(*attention, &Attention::forward, read, mask);
      for (size_t b = 0; b < padded.keys.size(); ++b) {
        const int64_t length = padded.keys[b];
        const std::string which = fmt::format("{}, {} of 97 keys", where, length);
        if (length == 0) {
          cut_off.take(largest(pick(all.y, {b}, {0, 1}, 97), anywhere), which);
          continue;
        }
        const auto alone = [&](const Tensor& t) { return pick(t, {b}, {0, 1}, length); };
        const Outcome one = run(*attention, &Attention::forward, x.map(alone), {mask.causal, {}});
        cut_off.take(relative_error(alone(all.y), one.y), which);
        cut_off.take(gradient_error(all.map(alone), one), which + ", gradients");
      }
    }
  }
  return {outputs, cut_off};
}

// Padded keys and values may hold anything: large numbers, NaN.
std::vector<Worst> padded_values(const Subject& subject) {
  Worst outputs, gradients;
  const Padded padded;
  const Inputs x = draw(padded.sizes, DType::f32);
  const Inputs wild = draw(padded.sizes, DType::f32, 100.0, 11);
  const Inputs nan = x.map([](const Tensor& t) {
    return Tensor::full(t.shape(), t.dtype(), std::numeric_limits<double>::quiet_NaN());
  });
  for (const auto& [mask, direction] : subject.masks(padded.valid)) {
    for (const auto& [attention, cut] : subject.cuts(padded.sizes, DType::f32)) {
      const Outcome before = run(*attention, &Attention::forward, x, mask);
      for (const auto& [fill, name] : {std::pair(&wild, "wild, "), std::pair(&nan, "NaN, ")}) {
        const std::string where = name + direction + cut;
        const Inputs changed{x.q, blend(x.k, fill->k, padded), blend(x.v, fill->v, padded), x.dy,
                             blend(x.gate, fill->gate, padded)};
        const Outcome after = run(*attention, &Attention::forward, changed, mask);
        outputs.take(different_bits(before.y, after.y, anywhere), where);
        outputs.take(different_bits(before.dq, after.dq, anywhere), where + ", dq");
        for (const auto& [gradient, value] : after.gradients())
          if (gradient != std::string("dq"))
            gradients.take(largest(value, padded), fmt::format("{}, {}", where, gradient));
        for (const Tensor& grad : after.dparameters)
          gradients.take(static_cast<double>(ops::count_nonfinite(grad)),
                         where + ", parameters not finite");
      }
    }
  }
  return {outputs, gradients};
}

// Sequences in another order and alone, and heads in another order, give the bits of before.
std::vector<Worst> independence(const Subject& subject) {
  Worst worst;
  const Sizes sizes{3, 2, 97, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f64);
  for (const auto& [mask, direction] : subject.masks()) {
    const Outcome all = run(*attention, &Attention::forward, x, mask);
    const auto compare = [&, &mask = mask](const std::vector<size_t>& batches,
                                           const std::vector<size_t>& heads,
                                           const std::string& where) {
      const auto chosen = [&](const Tensor& t) { return pick(t, batches, heads, sizes.length); };
      const Outcome some = run(*attention, &Attention::forward, x.map(chosen), mask);
      worst.take(relative_error(some.y, chosen(all.y)), where);
      worst.take(gradient_error(some, all.map(chosen)), where);
    };
    compare({2, 0, 1}, {0, 1}, "sequences in another order");
    for (const size_t b : {0, 1, 2}) compare({b}, {0, 1}, "one sequence alone");
    if (!subject.heads_differ()) compare({0, 1, 2}, {1, 0}, "heads in another order");
  }
  return {worst};
}

std::vector<Worst> determinism(const Subject& subject) {
  Worst worst;
  const Threads threads(2);
  const Inputs x = draw({}, DType::f32);
  for (const auto& [mask, direction] : subject.masks()) {
    for (const auto& [attention, cut] : subject.cuts({}, DType::f32)) {
      const Outcome one = run(*attention, &Attention::forward, x, mask);
      const Outcome two = run(*attention, &Attention::forward, x, mask);
      worst.take(different_bits(one.y, two.y, anywhere), "y" + cut);
      const auto first = one.gradients(), second = two.gradients();
      for (size_t i = 0; i < first.size(); ++i)
        worst.take(different_bits(first[i].second, second[i].second, anywhere),
                   first[i].first + cut);
      for (size_t i = 0; i < one.dparameters.size(); ++i)
        worst.take(relative_error(one.dparameters[i], two.dparameters[i]), "parameters" + cut);
    }
  }
  return {worst};
}

}  // namespace linea::conformance
