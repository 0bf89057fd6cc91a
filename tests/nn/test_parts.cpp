// Fewer pairs than threads: the chunks of a pair in parts, each summed by itself first, give what
// one sweep gives.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "nn/attention.h"
#include "tensor/context.h"

namespace linea {
namespace {

class Threads {
 public:
  explicit Threads(int count) : before_(context().threads) { set_threads(count); }
  ~Threads() { set_threads(before_); }

 private:
  int before_;
};

struct Case {
  int64_t B, H, N;
  bool causal, padded;
};

// y, dq, dk, dv and, of a gate, its gradient.
std::vector<Tensor> run(const AttentionOptions& options, const Case& c, int threads,
                        int64_t changed = -1) {
  const Threads as_asked(threads);
  const std::shared_ptr<Attention> attention = make_attention(options);
  const Shape keys{c.B, c.H, c.N, options.key_size}, values{c.B, c.H, c.N, options.value_size};
  Tensor k = random_tensor(keys, 2);
  if (changed >= 0)
    for (int64_t i = changed * options.key_size; i < c.N * options.key_size; ++i)
      k.data<double>()[i] += 0.5;
  std::vector<Var> inputs = {Var(random_tensor(keys, 1), true), Var(k, true),
                             Var(random_tensor(values, 3), true)};
  AttentionInputs in{inputs[0], inputs[1], inputs[2], Var()};
  if (attention->gate().size > 0) {
    Tensor gate = random_tensor({c.B, c.H, c.N, 1}, 4);
    for (int64_t i = 0; i < gate.numel(); ++i)
      gate.data<double>()[i] = 1 / (1 + std::exp(-gate.data<double>()[i]));
    inputs.emplace_back(gate, true);
    in.gate = inputs.back();
  }
  AttentionMask mask;
  mask.causal = c.causal;
  if (c.padded)
    mask.valid = Tensor::from(
        std::vector<int32_t>(static_cast<size_t>(c.B), static_cast<int32_t>(c.N * 2 / 3)), {c.B});
  const Var y = attention->forward(in, mask);
  backward(y, random_tensor(values, 5));
  std::vector<Tensor> results = {y.value()};
  for (const Var& input : inputs) results.push_back(input.grad());
  return results;
}

std::string rule_of(const AttentionOptions& options) {
  return options.name == "linear" ? complete_settings(options).text("rule") : "";
}

std::vector<AttentionOptions> variants() {
  std::vector<AttentionOptions> result;
  for (const AttentionEntry& entry : attentions())
    for (AttentionOptions variant : entry.variant_options()) {
      if (rule_of(variant).find("delta") != std::string::npos || entry.name == "softmax")
        continue;  // which have no sweeps of chunks
      variant.key_size = 3;
      variant.value_size = 4;
      variant.chunk = 3;
      variant.dtype = DType::f64;
      result.push_back(variant);
    }
  return result;
}

TEST(Parts, MatchOneSweep) {
  for (AttentionOptions options : variants())
    for (const Case& c : {Case{1, 1, 100, true, false},
                          {1, 2, 61, true, true},
                          {3, 1, 47, false, true},
                          {1, 1, 5, true, false}}) {
      if (rule_of(options) == "gated" && !c.causal) continue;
      options.heads = c.H;
      const std::vector<Tensor> one = run(options, c, 1);
      for (const int threads : {2, 8}) {
        const std::vector<Tensor> parts = run(options, c, threads);
        for (size_t i = 0; i < one.size(); ++i)
          EXPECT_LE(relative_error(parts[i], one[i]), 1e-10)
              << label_of(options) << " N " << c.N << ", " << threads << " threads, result " << i;
      }
    }
}

TEST(Parts, AreDeterministicAndCausal) {
  for (AttentionOptions options : variants()) {
    options.heads = 1;
    const Case c{1, 1, 100, true, false};
    const std::vector<Tensor> one = run(options, c, 4), again = run(options, c, 4),
                              other = run(options, c, 4, 70);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_EQ(one[i].to_doubles(), again[i].to_doubles()) << label_of(options);
    const std::vector<double> y = one[0].to_doubles(), y2 = other[0].to_doubles();
    int64_t early = 0, late = 0;
    for (size_t i = 0; i < y.size(); ++i) (i < 70 * 4 ? early : late) += y[i] != y2[i];
    EXPECT_EQ(early, 0) << label_of(options);
    EXPECT_GT(late, 0) << label_of(options);
  }
}

}  // namespace
}  // namespace linea
