// Blocks that run again in the backward: the same bits, less memory.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/caching_allocator.h"
#include "tensor/ops.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

ModelConfig recomputed_model(bool recompute, const AttentionOptions& attention = {}) {
  ModelConfig config = small_transformer(3);
  config.attentions = {attention};
  config.recompute = recompute;
  return config;
}

Tensor recompute_ids(int64_t B, int64_t N) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < B * N; ++i) ids.push_back(static_cast<int32_t>((i * i * 7 + i * 3) % 11));
  return Tensor::from(ids, {B, N});
}

struct Pass {
  std::vector<std::vector<double>> numbers;  // the loss, and every gradient
  size_t kept = 0;  // bytes held after the forward pass beyond those before it
};

Pass pass(const ModelConfig& config, int64_t batch) {
  Transformer model(config);
  const Tensor ids = recompute_ids(batch, config.length);
  context().step->seed = 5;
  context().step->step = 9;
  Pass result;
  {
    const size_t before = cpu_allocator().use().held;
    const Var loss = cross_entropy(model.forward(ids, true), ids);
    result.kept = cpu_allocator().use().held - before;
    backward(loss);
    result.numbers.push_back(loss.value().to_doubles());
  }
  for (const Parameter& parameter : model.parameters())
    result.numbers.push_back(parameter.var.grad().to_doubles());
  return result;
}

TEST(Recompute, GivesTheSameBits) {
  for (const AttentionEntry& entry : causal_attentions())
    for (const AttentionOptions& options : entry.variant_options()) {
      if (!make_smallest(options)->traits().recomputable) continue;
      EXPECT_EQ(pass(recomputed_model(true, options), 2).numbers,
                pass(recomputed_model(false, options), 2).numbers)
          << label_of(options);
    }
}

TEST(Recompute, SavesLess) {
  const size_t without = pass(recomputed_model(false), 16).kept,
               with = pass(recomputed_model(true), 16).kept;
  EXPECT_LT(with, without / 3);
}

TEST(Recompute, PassesGradcheck) {
  const Var weight(random_tensor({4, 4}, 3), true);
  const auto f = [&](const Var& x) { return pointwise(Pointwise::gelu, matmul(x, weight)); };
  const GradcheckResult result =
      gradcheck([&](const std::vector<Var>& in) { return recomputed(f, recomputed(f, in[0])); },
                {random_tensor({3, 4}, 1)});
  EXPECT_LE(result.error, 1e-7);
}

// An op that goes wrong while it runs again must not leave the tape switched on or off.
TEST(Recompute, PropagatesErrorsOfTheSecondRun) {
  const Var x(random_tensor({3}, 1), true);
  int runs = 0;
  const Var y = recomputed(
      [&](const Var& given) {
        if (++runs == 2) fail(ErrorKind::memory, "no more");
        return pointwise(Pointwise::gelu, given);
      },
      x);
  EXPECT_THROW(backward(y, random_tensor({3}, 2)), Error);
  EXPECT_TRUE(pointwise(Pointwise::gelu, x).requires_grad());
  const NoGrad no_grad;
  EXPECT_FALSE(pointwise(Pointwise::gelu, x).requires_grad());
}

TEST(Recompute, RefusesCodebooksThatCount) {
  AttentionOptions options;
  options.name = "vq";
  expect_error(ErrorKind::usage, {"`recompute`", "vq"},
               [&] { Transformer{recomputed_model(true, options)}; });
}

}  // namespace
}  // namespace linea
