// Attention in bf16 training on a CPU: near that of float, and exact where rounding must not matter.
// Every kernel of bf16 rounds what is saved; AVX512-BF16 also the factors of linear attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/qkv_layout.h"
#include "nn/verify/conformance.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tests/nn/attention_options.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

class Bf16Attention : public testing::Test {
 protected:
  void SetUp() override {
    if (bf16_isa() == nullptr) GTEST_SKIP() << "this processor has no kernel of bf16 products";
    context().products = FloatProducts::rounded;
  }
  void TearDown() override { context().products = FloatProducts::exact; }
};

struct AttentionResults {
  Tensor y;
  std::vector<std::vector<double>> gradients;
};

AttentionResults results_of(const AttentionOptions& options, int64_t length, bool causal,
                            FloatProducts products, int threads = 1) {
  const FloatProducts before = context().products;
  const int threads_before = context().threads;
  // Made before: omega is the same in both.
  const std::unique_ptr<Attention> attention = make_attention(options);
  const Shape shape{2, options.heads, length, options.key_size};
  std::vector<Var> leaves;
  for (uint32_t stream_id = 1; stream_id < 4; ++stream_id)
    leaves.emplace_back(random_tensor(shape, stream_id, 1.0, 0.0, DType::f32), true);
  AttentionInputs in{leaves[0], leaves[1], leaves[2], Var()};
  set_constant_gates(in, *attention, {2, options.heads, length}, 0.9, DType::f32, true);
  if (in.gate.defined()) leaves.push_back(in.gate);
  context().products = products;
  set_threads(threads);
  const Var y = attention->forward(in, {causal, {}});
  backward(y, random_tensor(shape, 9, 1.0, 0.0, DType::f32));
  AttentionResults results{y.value(), {}};
  for (const Var& leaf : leaves)
    if (leaf.grad().defined())  // not where keys are not read
      results.gradients.push_back(leaf.grad().to_doubles());
  context().products = before;
  set_threads(threads_before);
  return results;
}

// |difference| / |expected|
double apart(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(found[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(difference / norm);
}

std::vector<AttentionOptions> rounded_attentions() {
  std::vector<AttentionOptions> all;
  for (const AttentionEntry& entry : causal_attentions())
    for (AttentionOptions variant : entry.variant_options()) {
      variant.heads = 2;
      variant.key_size = variant.value_size = 64;
      variant.length = 300;
      if (make_attention(variant)->traits().signed_weights) continue;  // sums that cancel
      all.push_back(variant);
    }
  return all;
}

// A factor has 8 binary digits: an error of at most 2^-9 of it, and as much of the other; so have the
// inputs that both passes take.
TEST_F(Bf16Attention, OutputsAndGradientsAreNearThoseOfFloat) {
  for (const AttentionOptions& options : share_of(rounded_attentions(), 4))
    for (const bool causal : {true, false}) {
      if (!causal && make_attention(options)->traits().causal_only) continue;
      const AttentionResults exact = results_of(options, 200, causal, FloatProducts::exact),
                             rounded = results_of(options, 200, causal, FloatProducts::rounded);
      const std::string name = label_of(options);
      EXPECT_LE(apart(rounded.y.to_doubles(), exact.y.to_doubles()), 0.01) << name;
      for (size_t i = 0; i < exact.gradients.size(); ++i)
        EXPECT_LE(apart(rounded.gradients[i], exact.gradients[i]), 0.02) << name << " " << i;
    }
}

TEST_F(Bf16Attention, RoundsLinearAttentionAndThePerformer) {
  if (!rounds_chunks()) GTEST_SKIP() << "this processor multiplies chunks in float";
  for (const char* name : {"linear", "performer"}) {
    const AttentionOptions options = options_of(name, 2, 64, 64, DType::f32);
    const AttentionResults exact = results_of(options, 100, true, FloatProducts::exact),
                           rounded = results_of(options, 100, true, FloatProducts::rounded);
    EXPECT_GT(apart(rounded.y.to_doubles(), exact.y.to_doubles()), 1e-4) << name;
    for (size_t i = 0; i < exact.gradients.size(); ++i)
      EXPECT_GT(apart(rounded.gradients[i], exact.gradients[i]), 1e-4) << name;
  }
}

TEST_F(Bf16Attention, RoundsWhatIsSaved) {
  for (const char* name : {"linear", "softmax"}) {
    const AttentionOptions options = options_of(name, 2, 64, 64, DType::f32);
    const AttentionResults exact = results_of(options, 100, true, FloatProducts::exact),
                           rounded = results_of(options, 100, true, FloatProducts::rounded);
    for (size_t i = 0; i < exact.gradients.size(); ++i)
      EXPECT_GT(apart(rounded.gradients[i], exact.gradients[i]), 1e-4) << name << " " << i;
  }
}

Tensor rounded_to_bf16(const Tensor& x) { return ops::cast(ops::cast(x, DType::bf16), DType::f32); }

// The forward pass of attentions without rounded products takes the inputs that the backward pass has
// (RoundsWhatIsSaved): its bits are those of float at these. AMX and FMA compute chunks of linear
// attention in float, too.
TEST_F(Bf16Attention, TheForwardPassTakesTheSavedInputs) {
  std::vector<AttentionOptions> all = {options_of("softmax", 2, 64, 48, DType::f32),
                                       options_of("linear", 2, 64, 48, DType::f32)};
  all[1].settings = {{"rule", "delta"}};
  if (!rounds_chunks()) all.push_back(options_of("linear", 2, 64, 48, DType::f32));
  for (const AttentionOptions& options : all) {
    const std::unique_ptr<Attention> attention = make_attention(options);
    const auto input = [&](uint32_t stream_id, int64_t width) {
      return random_tensor({3, 2, 70, width}, stream_id, 1.0, 0.0, DType::f32);
    };
    const Tensor q = input(1, 64), k = input(2, 64), v = input(3, 48);
    const auto y_of = [&](FloatProducts products, const Tensor& q0, const Tensor& k0,
                          const Tensor& v0) {
      context().products = products;
      AttentionInputs in{Var(q0, true), Var(k0, true), Var(v0, true), Var()};
      set_constant_gates(in, *attention, {3, 2, 70}, 0.9, DType::f32);
      return attention->forward(in, {true, {}}).value().to_doubles();
    };
    const auto exact =
        y_of(FloatProducts::exact, rounded_to_bf16(q), rounded_to_bf16(k), rounded_to_bf16(v));
    EXPECT_EQ(y_of(FloatProducts::rounded, q, k, v), exact) << label_of(options);
    EXPECT_NE(y_of(FloatProducts::exact, q, k, v), exact) << label_of(options);
  }
}

// Saved inputs are restored for some sequences at a time: the results are those of each sequence
// alone, with its own padding.
TEST_F(Bf16Attention, SequencesInGroupsAreThoseAlone) {
  constexpr int64_t kBatch = 3, kHeads = 2, kWidth = 64;
  constexpr int64_t kLength = kRestored / (3 * kHeads * kWidth) * 3 / 4;  // one sequence a group
  for (const char* name : {"linear", "performer", "softmax"}) {
    AttentionOptions options = options_of(name, kHeads, kWidth, kWidth, DType::f32);
    if (options.name == "performer") options.settings = {{"features", 16}};
    const std::unique_ptr<Attention> attention = make_attention(options);
    const Tensor qkv =
                     random_tensor({kBatch, kLength, 3 * kHeads * kWidth}, 1, 1.0, 0.0, DType::f32),
                 dy = random_tensor({kBatch, kLength, kHeads * kWidth}, 2, 1.0, 0.0, DType::f32);
    const std::vector<int32_t> lengths = {kLength, kLength / 2, 7};
    const auto results_at = [&](int64_t first, int64_t count) {
      const Var leaf(qkv.rows(first, count).clone(), true);
      AttentionInputs in;
      in.qkv = leaf;
      in.heads = kHeads;
      const auto from = lengths.begin() + first;
      const Tensor valid = Tensor::from(std::vector<int32_t>(from, from + count), {count});
      const Var y = attention->forward(in, {true, valid});
      backward(y, dy.rows(first, count));
      return std::pair(y.value().to_vector<float>(), leaf.grad().to_vector<float>());
    };
    const auto all = results_at(0, kBatch);
    std::vector<float> y, gradient;
    for (int64_t b = 0; b < kBatch; ++b) {
      const auto one = results_at(b, 1);
      y.insert(y.end(), one.first.begin(), one.first.end());
      gradient.insert(gradient.end(), one.second.begin(), one.second.end());
    }
    EXPECT_EQ(all.first, y) << name;
    EXPECT_EQ(all.second, gradient) << name;
  }
}

// Evaluation during training computes what training does.
TEST_F(Bf16Attention, EvaluationTakesRoundedInputsToo) {
  for (const char* name : {"linear", "performer", "softmax"}) {
    const std::unique_ptr<Attention> attention =
        make_attention(options_of(name, 2, 64, 64, DType::f32));
    const auto input = [&](uint32_t stream_id) {
      return Var(random_tensor({2, 2, 70, 64}, stream_id, 1.0, 0.0, DType::f32), true);
    };
    const auto y = [&] {
      return attention->forward({input(1), input(2), input(3), Var()}, {true, {}})
          .value()
          .to_doubles();
    };
    const std::vector<double> trained = y();
    const NoGrad no_grad;
    EXPECT_EQ(y(), trained) << name;
  }
}

// omega consists of bf16 numbers, so that rounding the factors of omega.x changes nothing.
TEST_F(Bf16Attention, OmegaIsOfBf16Numbers) {
  for (const char* feature : {"positive", "hyperbolic"}) {
    AttentionOptions options = options_of("performer", 2, 64, 64, DType::f32);
    options.settings = {{"feature", feature}, {"redraw", 1}};
    const std::unique_ptr<Attention> attention = make_attention(options);
    const Tensor omega = attention->buffers().front().tensor;
    const std::vector<double> first = omega.to_doubles();
    EXPECT_EQ(first, rounded_to_bf16(omega).to_doubles());
    attention->before_step(1, 10);
    EXPECT_NE(omega.to_doubles(), first);
    EXPECT_EQ(omega.to_doubles(), rounded_to_bf16(omega).to_doubles());
    ops::copy_into(random_tensor(omega.shape(), 9, 1.0, 0.0, DType::f32), omega);
    attention->buffers_changed();  // loaded from a float run
    EXPECT_EQ(omega.to_doubles(), rounded_to_bf16(omega).to_doubles());
  }
}

// A thread computes whole heads, each in the same order: of fewer heads than threads, too.
TEST_F(Bf16Attention, ThreadsDoNotAffectBits) {
  for (const char* name : {"linear", "performer"})
    for (const int64_t heads : {1, 2}) {
      const AttentionOptions options = options_of(name, heads, 32, 32, DType::f32);
      const AttentionResults one = results_of(options, 130, true, FloatProducts::rounded),
                             three = results_of(options, 130, true, FloatProducts::rounded, 3);
      EXPECT_EQ(three.y.to_doubles(), one.y.to_doubles()) << name << ", " << heads << " heads";
      EXPECT_EQ(three.gradients, one.gradients) << name << ", " << heads << " heads";
    }
}

// Values of 1 give outputs of 1: numerator and denominator are sums of the same weights.
TEST_F(Bf16Attention, RowsOfOnesStayOnes) {
  for (const AttentionOptions& options : rounded_attentions()) {
    const Shape shape{1, 2, 300, 64};
    const auto normal = [&](uint32_t stream_id) {
      return Var(random_tensor(shape, stream_id, 1.0, 0.0, DType::f32));
    };
    const std::unique_ptr<Attention> attention = make_attention(options);
    if (attention->gate().size > 0 || !attention->traits().denominators)
      continue;  // a rule of gates or without denominator need not have weights that sum to 1
    const Var ones(Tensor::full(shape, DType::f32, 1.0));
    for (const double y :
         attention->forward({normal(1), normal(2), ones, Var()}, {true, {}}).value().to_doubles())
      ASSERT_NEAR(y, 1, 1e-2) << label_of(options);
  }
}

std::vector<AttentionOptions> all_attentions() {
  std::vector<AttentionOptions> all;
  for (const AttentionEntry& entry : attentions())
    for (const AttentionOptions& variant : entry.variant_options()) all.push_back(variant);
  return all;
}

// Bounds of the worst element, relative to the largest; of bits and counts 0. An output is a sum of
// products of two factors, twice, each factor with an error of at most 2^-9 = 0.002. Inputs of standard
// deviation 8 make a few weights count. Gates, and squares in their denominators, sum terms that
// cancel. Weights of both signs cancel, too: of float's digits they take two, and of bf16's as many.
double bound_of(const std::string& check, const Attention& attention) {
  const bool cancels = attention.traits().signed_weights;
  if (check == "outputs, float" || check == "step = outputs, float") return cancels ? 0.3 : 0.01;
  if (check == "gradients, float") return cancels || attention.gate().size > 0 ? 0.1 : 0.06;
  return check == "large inputs, float" ? 0.02 : 0;
}

// Attentions that round their inputs are compared with float at rounded ones.
bool takes_rounded(const AttentionOptions& options) {
  const std::unique_ptr<Attention> attention = make_attention(options);
  for (const char* const name : {"improved-clustered", "informer", "lsh", "prior", "routing"})
    if (options.name == name) return true;
  if (attention->traits().softmax_weights)
    return !attention->traits().decides && options.name != "sinkhorn";
  if (options.name == "linear") return options.settings.text("rule") == "delta";
  if (options.name == "performer")
    return options.settings.text("feature") == "positive" ||
           options.settings.text("feature") == "hyperbolic";
  return false;
}

// The checks of float. Of what has the bits of exact products float's bounds hold.
class Bf16Conformance : public Bf16Attention,
                        public testing::WithParamInterface<AttentionOptions> {};

TEST_P(Bf16Conformance, EveryCheckOfFloatPasses) {
  AttentionOptions options = GetParam();
  options.heads = 2;
  options.key_size = options.value_size = 64;
  options.image_width = 10;
  options.image_channels = 3;
  options.length = 100;
  if (kSanitized && !takes_rounded(options))  // the kernels of float, which Conformance runs
    GTEST_SKIP() << "too slow here; the release build's tests do it";
  const std::unique_ptr<Attention> attention = make_attention(options);
  const bool causal = attention->traits().not_causal.empty();
  const AttentionResults exact = results_of(options, 100, causal, FloatProducts::exact),
                         rounded = results_of(options, 100, causal, FloatProducts::rounded);
  const bool same_outputs = rounded.y.to_doubles() == exact.y.to_doubles(),
             same_gradients = same_outputs && rounded.gradients == exact.gradients;
  size_t count = 0;
  for (const char* const first : {"outputs, float", "gradients, float", "step = outputs, float",
                                  "causality: ", "padding: ", "two runs", "large inputs"})
    for (const Check& check :
         check_attention(GetParam(), {true, first, make_attention, takes_rounded(options)})) {
      ++count;
      // weights of 8 x 8 x N(0, 1) that cancel have no digits left
      if (check.name == "large inputs, float" && attention->traits().signed_weights) continue;
      const bool same = check.name == "gradients, float" ? same_gradients : same_outputs;
      EXPECT_LE(check.measured, same ? check.bound : bound_of(check.name, *attention))
          << check.name << " at " << check.detail;
    }
  EXPECT_EQ(count, causal ? 10u : 7u);
}

INSTANTIATE_TEST_SUITE_P(Attentions, Bf16Conformance,
                         testing::ValuesIn(share_of(all_attentions(), 3)),
                         [](const testing::TestParamInfo<AttentionOptions>& variant) {
                           std::string name = label_of(variant.param);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace linea
