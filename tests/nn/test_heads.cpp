// Attentions that take q, k and v as parts of one tensor give what they give of three.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "autograd/qkv_layout.h"
#include "nn/attention.h"
#include "tensor/ops.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kRows = 70, kSize = 8;

// Every variant that says it takes packed heads.
template <typename Body>
void each_packed(const Body& body) {
  int64_t found = 0;
  for (const AttentionEntry& entry : causal_attentions())
    for (AttentionOptions options : entry.variant_options()) {
      options.heads = kHeads;
      options.key_size = options.value_size = kSize;
      options.dtype = DType::f64;
      const std::unique_ptr<Attention> attention = make_attention(options);
      if (!attention->traits().packed_qkv) continue;
      ++found;
      SCOPED_TRACE(label_of(options));
      body(*attention);
    }
  EXPECT_GE(found, 10);
}

Var gate_of(const Attention& attention) {
  if (attention.gate().size == 0) return {};
  return Var(ops::pointwise(Pointwise::sigmoid, random_tensor({kBatch, kHeads, kRows, 1}, 5)),
             true);
}

TEST(PackedHeads, ForwardAndGradients) {
  const Tensor packed = random_tensor({kBatch, kRows, 3 * kHeads * kSize}, 1);
  const Tensor seed = random_tensor({kBatch, kRows, kHeads * kSize}, 2);
  const Tensor valid = Tensor::from(std::vector<int32_t>{70, 41}, {kBatch});
  each_packed([&](const Attention& attention) {
    for (const bool padded : {false, true}) {
      const AttentionMask mask{true, padded ? valid : Tensor()};
      Var one(packed, true), apart(packed, true), gate1 = gate_of(attention),
                                                  gate3 = gate_of(attention);
      AttentionInputs in;
      in.gate = gate1;
      in.qkv = one;
      in.heads = kHeads;
      const Var y1 = attention.forward(in, mask);
      const Var parts = split_heads(apart, 3, kHeads);
      const Var y3 = merge_heads(
          attention.forward({select(parts, 0), select(parts, 1), select(parts, 2), gate3}, mask));
      EXPECT_LE(relative_error(y1.value(), y3.value()), 1e-12);
      backward(y1, seed);
      backward(y3, seed);
      EXPECT_LE(relative_error(one.grad(), apart.grad()), 1e-11);
      if (attention.gate().size > 0) {
        EXPECT_LE(relative_error(gate1.grad(), gate3.grad()), 1e-11);
      }
      for (const Parameter& parameter : attention.parameters()) Var(parameter.var).clear_grad();
    }
  });
}

TEST(PackedHeads, Steps) {
  const Tensor packed = random_tensor({kRows, kBatch, 3 * kHeads * kSize}, 1);
  each_packed([&](const Attention& attention) {
    const auto of_one = attention.start(kBatch, DType::f64),
               of_three = attention.start(kBatch, DType::f64);
    for (int64_t n = 0; n < kRows; ++n) {
      AttentionInputs one, three;
      if (attention.gate().size > 0)
        one.gate = three.gate = Var(Tensor::full({kBatch, kHeads, 1, 1}, DType::f64, 0.25));
      one.qkv = Var(packed.select(n).reshape({kBatch, 1, 3 * kHeads * kSize}));
      one.heads = kHeads;
      const Var parts = split_heads(one.qkv, 3, kHeads);
      three.q = select(parts, 0);
      three.k = select(parts, 1);
      three.v = select(parts, 2);
      const Tensor y1 = attention.step(*of_one, one), y3 = attention.step(*of_three, three);
      ASSERT_LE(relative_error(y1.reshape(y3.shape()), y3), 1e-13) << "position " << n;
    }
  });
}

TEST(PackedHeads, RefusesSizesThatDoNotDivide) {
  AttentionOptions options;
  options.heads = 2;
  options.key_size = options.value_size = 4;
  AttentionInputs in;
  in.heads = 2;
  in.qkv = Var(random_tensor({1, 5, 23}, 1));
  EXPECT_NE(message_of([&] { make_attention(options)->forward(in, {}); }).find("23"),
            std::string::npos);
}

}  // namespace
}  // namespace linea
