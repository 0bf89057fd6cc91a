// Hard codes: the gradient that passes straight through them, and how the codebook learns.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

using namespace conformance;

AttentionOptions vq(int64_t codes, int64_t heads, int64_t key_size, DType dtype = DType::f64) {
  AttentionOptions options = options_of("vq", heads, key_size, 5, dtype);
  options.settings["codes"] = codes;
  return options;
}

Tensor codebook_of(const Attention& attention) {
  for (const Buffer& buffer : attention.buffers())
    if (buffer.name == "codebook") return buffer.tensor;
  return attention.parameters().at(0).var.value();
}

std::map<std::string, double> statistics_of(Attention& attention) {
  std::map<std::string, double> result;
  for (const auto& [name, value] : attention.statistics()) result[name] = value;
  return result;
}

Var auxiliary_loss(Attention& attention, const Var& keys, const Tensor& valid = {}) {
  return attention.auxiliary_loss({{}, keys, {}, {}}, {true, valid});
}

// The nearest code of each key [B,H,N,D], and that code itself.
struct Coded {
  std::vector<size_t> code;
  std::vector<double> key;
};
Coded nearest(const Tensor& k, const Tensor& codebook) {
  const size_t H = static_cast<size_t>(k.size(1)), N = static_cast<size_t>(k.size(2)),
               D = static_cast<size_t>(k.size(3));
  const size_t F = static_cast<size_t>(codebook.size(1));
  const std::vector<double> keys = k.to_doubles(), codes = codebook.to_doubles();
  Coded result;
  for (size_t row = 0; row < keys.size() / D; ++row) {
    const size_t head = row / N % H;
    double min = std::numeric_limits<double>::infinity();
    size_t best = 0;
    for (size_t f = 0; f < F; ++f) {
      double distance = 0;
      for (size_t d = 0; d < D; ++d)
        distance += std::pow(keys[row * D + d] - codes[(head * F + f) * D + d], 2);
      if (distance >= min) continue;
      min = distance;
      best = f;
    }
    result.code.push_back(best);
    for (size_t d = 0; d < D; ++d) result.key.push_back(codes[(head * F + best) * D + d]);
  }
  return result;
}

// softmax(q.k^) v on the tape, k^ a leaf.
Outcome surrogate(const Inputs& x, const Tensor& codebook, const AttentionMask& mask) {
  const Var q(x.q, true), k(Tensor::from(nearest(x.k, codebook).key, x.k.shape()), true),
      v(x.v, true);
  const Var scores = add(
      matmul(q, k, false, true),
      Var(naive::log_mask({x.q.size(0), x.q.size(1), x.q.size(2), x.q.size(2)}, DType::f64, mask)));
  backward(matmul(softmax(scores), v), x.dy);
  return {matmul(softmax(scores), v).value(), q.grad(), k.grad(), v.grad()};
}

TEST(Vq, KeysGetTheGradientOfTheirCodes) {
  const Inputs x = draw({3, 2, 97, 4, 5}, DType::f64);
  const Tensor valid = Tensor::from(std::vector<int32_t>{97, 40, 41}, {3});
  for (const bool causal : {true, false}) {
    for (const Tensor& keys : {Tensor(), valid}) {
      for (const int64_t segment : {0, 40}) {
        AttentionOptions options = vq(7, 2, 4);
        options.segment = segment;
        options.chunk = segment == 0 ? 0 : 16;
        const auto attention = make_attention(options);
        const Outcome expected = surrogate(x, codebook_of(*attention), {causal, keys});
        const Outcome found = run(*attention, &Attention::forward, x, {causal, keys});
        EXPECT_LE(relative_error(found.y, expected.y), 1e-11);
        EXPECT_LE(relative_error(found.dq, expected.dq), 1e-10);
        EXPECT_LE(relative_error(found.dk, expected.dk), 1e-10)
            << causal << " " << keys.defined() << " " << segment;
        EXPECT_LE(relative_error(found.dv, expected.dv), 1e-10);
      }
    }
  }
}

// Many pairs and codes, so that tiles cut heads apart; float; scores of some hundred.
TEST(Vq, KeysGetTheGradientOfTheirCodesInFloat) {
  const Inputs x = draw({2, 3, 140, 16, 5}, DType::f32, 4.0), wide = in_dtype(x, DType::f64);
  AttentionOptions options = vq(256, 3, 16, DType::f32);
  const auto attention = make_attention(options);
  std::vector<double> codes = codebook_of(*attention).to_doubles();
  for (double& code : codes) code *= 4;
  write_values(codes, codebook_of(*attention));
  for (const bool causal : {true, false}) {
    const Outcome expected = surrogate(wide, codebook_of(*attention), {causal, {}});
    const Outcome found = run(*attention, &Attention::forward, x, {causal, {}});
    EXPECT_LE(relative_error(found.y, expected.y), 1e-3);
    EXPECT_LE(gradient_error(found, expected), 1e-3) << causal;
  }
}

// What a skipped step saw, NaN among it, is forgotten.
TEST(Vq, ASkippedStepLeavesNoTrace) {
  const auto straight = make_attention(vq(3, 2, 4)), disturbed = make_attention(vq(3, 2, 4));
  for (uint32_t step = 0; step < 3; ++step) {
    const Var keys(random_tensor({2, 2, 50, 4}, 900 + step));
    for (const auto& attention : {straight.get(), disturbed.get()}) {
      attention->before_step(step, 100);
      if (attention == disturbed.get()) {
        auxiliary_loss(*attention, Var(Tensor::full({2, 2, 50, 4}, DType::f64, std::nan(""))));
        attention->skip_step();
      }
      auxiliary_loss(*attention, keys);
      attention->after_step();
    }
    EXPECT_EQ(codebook_of(*straight).to_doubles(), codebook_of(*disturbed).to_doubles());
  }
}

// Means of the first batch as they are, then 0.99 of the old and 0.01 of the new; each head by
// itself.
TEST(Vq, CodesAreMovingAveragesOfTheirKeys) {
  const size_t H = 2, F = 3, D = 4;
  const auto attention = make_attention(vq(3, 2, 4));
  std::vector<double> counts(H * F), sums(H * F * D);
  for (uint32_t step = 0; step < 4; ++step) {
    attention->before_step(step, 100);
    const Tensor before = codebook_of(*attention).clone();
    std::vector<double> fresh_counts(H * F), fresh_sums(H * F * D);
    for (uint32_t batch = 0; batch < 2; ++batch) {  // two batches a step
      const Tensor k = random_tensor({2, 2, 50, 4}, 900 + 2 * step + batch);
      const Coded coded = nearest(k, before);
      const std::vector<double> keys = k.to_doubles();
      for (size_t row = 0; row < coded.code.size(); ++row) {
        const size_t code = row / 50 % H * F + coded.code[row];
        fresh_counts[code] += 1;
        for (size_t d = 0; d < D; ++d) fresh_sums[code * D + d] += keys[row * D + d];
      }
      auxiliary_loss(*attention, Var(k));
    }
    attention->after_step();
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = step == 0 ? fresh_counts[i] : 0.95 * counts[i] + 0.05 * fresh_counts[i];
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = step == 0 ? fresh_sums[i] : 0.95 * sums[i] + 0.05 * fresh_sums[i];
    const std::vector<double> found = codebook_of(*attention).to_doubles();
    for (size_t i = 0; i < sums.size(); ++i)
      EXPECT_NEAR(found[i], sums[i] / counts[i / D], 2e-6) << step << " " << i;
  }
  EXPECT_EQ(statistics_of(*attention).at("vq_revived"), 0.0);
}

// Keys around four places, and then around others not far: each code goes where its keys are.
TEST(Vq, CodesFollowTheKeys) {
  const auto attention = make_attention(vq(4, 2, 2, DType::f32));
  const double places[4][2] = {{3, 3}, {-3, 3}, {3, -3}, {-3, -3}};
  std::vector<double> start;
  for (size_t i = 0; i < 16; ++i) start.push_back(places[i / 2 % 4][i % 2] / 3);
  write_values(start, codebook_of(*attention));
  for (uint32_t step = 0; step < 500; ++step) {
    const double moved = step < 5 ? 0 : 1;
    std::vector<double> keys = random_tensor({1, 2, 40, 2}, 1000 + step, 0.1).to_doubles();
    for (size_t i = 0; i < keys.size(); ++i) keys[i] += places[i / 2 % 4][i % 2] + moved;
    attention->before_step(step, 500);
    auxiliary_loss(*attention,
                   Var(Tensor::from(std::vector<float>(keys.begin(), keys.end()), {1, 2, 40, 2})));
    attention->after_step();
    if (step != 4 && step != 499) continue;
    const std::vector<double> codes = codebook_of(*attention).to_doubles();
    for (size_t i = 0; i < 16; ++i)
      EXPECT_NEAR(codes[i], places[i / 2 % 4][i % 2] + moved, 0.1) << step << " " << i;
  }
}

TEST(Vq, AnUnusedCodeIsReset) {
  for (const char* codebook : {"ema", "gradient"}) {
    AttentionOptions options = vq(4, 2, 3, DType::f32);
    options.settings["codebook"] = codebook;
    const auto attention = make_attention(options);
    std::vector<double> codes = codebook_of(*attention).to_doubles();
    for (size_t d = 0; d < 3; ++d) codes[(4 + 2) * 3 + d] = 1000;  // code 2 of head 1
    write_values(codes, codebook_of(*attention));
    const Tensor k = random_tensor({2, 2, 300, 3}, 61, 1.0, 0.0, DType::f32);
    attention->before_step(0, 10);
    auxiliary_loss(*attention, Var(k));
    attention->after_step();
    const std::vector<double> found = codebook_of(*attention).to_doubles(), keys = k.to_doubles();
    double min = 1e9;
    for (size_t row = 0; row < keys.size() / 3; ++row) {
      if (row / 300 % 2 != 1) continue;  // of its own head
      double away = 0;
      for (size_t d = 0; d < 3; ++d)
        away = std::max(away, std::abs(found[(4 + 2) * 3 + d] - keys[row * 3 + d]));
      min = std::min(min, away);
    }
    EXPECT_LE(min, 1e-5) << codebook;
    const std::map<std::string, double> statistics = statistics_of(*attention);
    EXPECT_EQ(statistics.at("vq_revived"), 1.0);
    EXPECT_EQ(statistics.at("vq_usage"), 7.0 / 8);
    if (std::string(codebook) == "gradient") {  // nothing else moves but by gradients
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(i / 3 == 6 || found[i] == codes[i]) << i;
    }
  }
}

TEST(Vq, AuxiliaryLoss) {
  const Tensor k = random_tensor({2, 3, 20, 4}, 62);
  for (const std::string codebook : {"ema", "gradient"}) {
    AttentionOptions options = vq(5, 3, 4);
    options.settings["codebook"] = codebook;
    options.settings["commitment"] = 0.3;
    const auto attention = make_attention(options);
    const bool learns = codebook == "gradient";
    EXPECT_EQ(attention->parameters().size(), learns ? 1u : 0u);
    std::set<std::string> names;
    for (const Buffer& buffer : attention->buffers()) names.insert(buffer.name);
    EXPECT_EQ(names, learns
                         ? (std::set<std::string>{"codebook_counts"})
                         : (std::set<std::string>{"codebook", "codebook_counts", "codebook_sums"}));

    const Coded coded = nearest(k, codebook_of(*attention));
    const std::vector<double> keys = k.to_doubles();
    const double rows = 2 * 3 * 20;
    double squares = 0;
    std::vector<double> dk, dcodes(3 * 5 * 4);
    for (size_t i = 0; i < keys.size(); ++i) {
      const double away = keys[i] - coded.key[i];
      squares += away * away / rows;
      dk.push_back(0.3 * 2 * away / rows * 1.7);
      dcodes[(i / 80 % 3 * 5 + coded.code[i / 4]) * 4 + i % 4] -= 2 * away / rows * 1.7;
    }
    const Var leaf(k, true);
    const Var loss = auxiliary_loss(*attention, leaf);
    EXPECT_EQ(loss.shape(), (Shape{1}));
    EXPECT_NEAR(loss.value().item(), (learns ? 1.3 : 0.3) * squares, 1e-12);
    backward(scale(loss, 1.7));
    EXPECT_LE(relative_error(leaf.grad(), Tensor::from(dk, k.shape())), 1e-12);
    if (!learns) continue;
    const Var codes = attention->parameters()[0].var;
    EXPECT_LE(relative_error(codes.grad(), Tensor::from(dcodes, codes.shape())), 1e-12);
  }
}

// Padding, whatever it holds, is in no mean, count or sum, and no code becomes such a key.
TEST(Vq, PaddingIsNoKey) {
  for (const std::string codebook : {"ema", "gradient"}) {
    AttentionOptions options = vq(5, 3, 4);
    options.settings["codebook"] = codebook;
    const Tensor k = random_tensor({2, 3, 20, 4}, 63);
    std::vector<double> first, second, padded = k.to_doubles();
    for (size_t i = 0; i < padded.size(); ++i) {
      if (i < 3 * 80) first.push_back(padded[i]);
      if (i >= 3 * 80 && i % 80 < 7 * 4) second.push_back(padded[i]);
      if (i >= 3 * 80 && i % 80 >= 7 * 4) padded[i] = std::nan("");
    }
    const auto attention = make_attention(options), parts = make_attention(options);
    const double of_first =
                     auxiliary_loss(*parts, Var(Tensor::from(first, {1, 3, 20, 4}))).value().item(),
                 of_second =
                     auxiliary_loss(*parts, Var(Tensor::from(second, {1, 3, 7, 4}))).value().item();
    const Var leaf(Tensor::from(padded, k.shape()), true);
    const Var loss =
        auxiliary_loss(*attention, leaf, Tensor::from(std::vector<int32_t>{20, 7}, {2}));
    EXPECT_NEAR(loss.value().item(), (20 * of_first + 7 * of_second) / 27, 1e-12);
    backward(loss);
    const std::vector<double> dk = leaf.grad().to_doubles();
    for (size_t i = 0; i < dk.size(); ++i)
      EXPECT_EQ(dk[i] == 0, i >= 3 * 80 && i % 80 >= 7 * 4) << i;
    for (Attention* one : {attention.get(), parts.get()}) one->after_step();
    const Tensor counts = attention->buffers().at(0).tensor,
                 sums = attention->buffers().back().tensor;
    EXPECT_EQ(counts.to_doubles(), parts->buffers().at(0).tensor.to_doubles());
    EXPECT_EQ(ops::count_nonfinite(sums), 0);
    EXPECT_EQ(ops::count_nonfinite(codebook_of(*attention)), 0);
  }
}

// The keys of head 0 use two of four codes equally, those of head 1 one.
TEST(Vq, UsageAndEntropy) {
  const auto attention = make_attention(vq(4, 2, 1));
  write_values({-3, -1, 1, 3, -3, -1, 1, 3}, codebook_of(*attention));
  auxiliary_loss(*attention, Var(Tensor::from(std::vector<double>{-3, -3, 1, 1, 3, 3.2, 2.9, 3},
                                              {1, 2, 4, 1})));
  attention->after_step();
  const std::map<std::string, double> statistics = statistics_of(*attention);
  EXPECT_NEAR(statistics.at("vq_usage"), 3.0 / 8, 1e-12);
  EXPECT_NEAR(statistics.at("vq_entropy"), std::log(2.0) / 2, 1e-12);
}

TEST(Vq, EvaluationChangesNothing) {
  const auto attention = make_attention(vq(4, 2, 3));
  const std::vector<double> codes = codebook_of(*attention).to_doubles();
  const Inputs x = draw({1, 2, 30, 3, 5}, DType::f64);
  run(*attention, &Attention::forward, x, {});
  run(*attention, &Attention::quadratic, x, {});
  attention->after_step();
  EXPECT_EQ(codebook_of(*attention).to_doubles(), codes);
}

TEST(Vq, RefusesInvalidSettings) {
  const auto refused = [](AttentionOptions options, const char* what) {
    try {
      make_attention(options);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  AttentionOptions options = vq(0, 1, 4);
  refused(options, "`codes` is 0");
  options = vq(4, 1, 4);
  options.settings["commitment"] = -0.1;
  refused(options, "`commitment` is -0.1");
  options.settings["commitment"] = 0.1;
  options.settings["codebook"] = "frozen";
  refused(options, "`codebook` is 'frozen'");
  options = vq(4, 1, 4);
  options.settings["feature"] = "elu";
  refused(options, "attention vq has no setting `feature`");
}

}  // namespace
}  // namespace linea
