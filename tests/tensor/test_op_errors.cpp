// What the ops say when they are used wrongly: the op, both shapes, the token that does not exist.
#include <gtest/gtest.h>

#include "tensor/ops.h"

#include "tests/expect_error.h"
#include "tests/tensor/op_values.h"

namespace linea {
namespace {

TEST(OpErrors, NameTheOpAndBothShapes) {
  const auto zeros = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::zeros(shape, dtype);
  };
  const Tensor x = zeros({2, 3}), wide = zeros({2, 4});
  EXPECT_EQ(message_of([&] { ops::add(x, wide); }), "add: shapes [2,3] and [2,4] differ");
  EXPECT_EQ(message_of([&] { ops::multiply(x, wide); }), "multiply: shapes [2,3] and [2,4] differ");
  EXPECT_EQ(message_of([&] { ops::accumulate(x, wide); }),
            "add: b has shape [2,3], expected [2,4]");
  EXPECT_EQ(message_of([&] {
              ops::add(x, zeros({2, 3}, DType::f64));
            }),
            "add: dtypes f32 and f64 do not match");
  EXPECT_EQ(message_of([&] { ops::scale(zeros({2}, DType::i32), 2); }),
            "scale needs f32 or f64, not i32");
  EXPECT_EQ(message_of([&] { ops::matmul(x, wide); }),
            "matmul: the inner sizes of [2,3] and [2,4] differ");
  EXPECT_EQ(message_of([&] { ops::matmul(x, wide, false, true); }),
            "matmul: the inner sizes of [2,3] and [2,4] (transposed) differ");
  EXPECT_EQ(message_of([&] { ops::matmul(zeros({3}), x); }),
            "matmul: [3] times [2,3] needs two axes each");
  EXPECT_EQ(message_of([&] {
              ops::matmul(zeros({2, 3, 4, 5}), zeros({3, 2, 5, 4}));
            }),
            "matmul: the outer axes of [2,3,4,5] and [3,2,5,4] differ");
  EXPECT_EQ(message_of([&] {
              ops::matmul(zeros({2, 3, 4}), zeros({3, 5}), true);
            }),
            "matmul: the outer axes of [2,3,4] and [3,5] differ");
  EXPECT_EQ(message_of([&] {
              ops::add_rows(zeros({4, 6}), zeros({4}));
            }),
            "add_rows: [4] does not repeat over [4,6]");
  EXPECT_EQ(message_of([&] {
              ops::sum_rows(zeros({4, 6}), {4});
            }),
            "sum_rows: [4] does not repeat over [4,6]");
  EXPECT_EQ(message_of([&] { ops::layer_norm(x, zeros({2}), Tensor()); }),
            "layer_norm: weight has shape [2], expected [3]");
  EXPECT_EQ(message_of([&] { ops::layer_norm(x, zeros({3}), zeros({3}, DType::f64)); }),
            "layer_norm: dtypes f32 and f64 do not match");
  EXPECT_NE(message_of([&] { ops::mask_causal(x, 0); }).find("[2,3] is not square"),
            std::string::npos);
  EXPECT_NE(message_of([&] { ops::dropout(x, 1.0f, 0); }).find("[0, 1)"), std::string::npos);
  EXPECT_NE(message_of([&] { op_tests::sample_logits(x, {0}, {}); }).find("`temperature` is 0"),
            std::string::npos);
  EXPECT_NE(message_of([&] { ops::dpfp_features(x, 6); }).find("nu is 6"), std::string::npos);
  EXPECT_NE(message_of([&] {
              ops::permute(x, {{2, 2, 1, 1}, {0, 1, 2, 3}, 1}, {2, 3});
            }).find("permute: 4"),
            std::string::npos);
}

TEST(OpErrors, TokensOutsideTheTable) {
  const Tensor table = Tensor::zeros({5, 3}, DType::f32);
  const auto ids = [](int32_t id) { return Tensor::from(std::vector<int32_t>{0, id}, {2}); };
  EXPECT_EQ(message_of([&] { ops::embedding(table, ids(5)); }),
            "embedding: the token 5 at index 1 is not one of 0..4");
  const auto embed_at = [&](int32_t place, const Tensor& positions) {
    return message_of(
        [&] { ops::embed_position(table, ids(1), positions, ids(place), DType::f32); });
  };
  EXPECT_EQ(embed_at(5, table), "embed_position: the token 5 at index 1 is not one of 0..4");
  EXPECT_NE(embed_at(0, Tensor::zeros({5, 2}, DType::f32)).find("do not match"), std::string::npos);
  EXPECT_EQ(message_of([&] { ops::embedding(table, ids(-1)); }),
            "embedding: the token -1 at index 1 is not one of 0..4");
  EXPECT_NE(message_of([&] {
              ops::embedding_backward(ids(7), Tensor::zeros({2, 3}, DType::f32), 5);
            }).find("the token 7"),
            std::string::npos);
  const Tensor logits = Tensor::zeros({2, 4}, DType::f32), two = Tensor::zeros({2}, DType::i32);
  const auto sample = [&](OutputKind kind, int64_t tokens, const ops::Sampled& to) {
    return message_of([&] { ops::sample(kind, logits, tokens, {}, {}, to); });
  };
  EXPECT_EQ(sample(OutputKind::logits, 4, {two}), "no error");
  EXPECT_EQ(sample(OutputKind::logits, 5, {two}),
            "sample: outputs [2,4] are no logits of 5 tokens");
  EXPECT_NE(sample(OutputKind::logistics, 4, {two}).find("is no mixture"), std::string::npos);
  EXPECT_EQ(sample(OutputKind::logits, 4, {two, Tensor::zeros({3}, DType::i32)}),
            "sample: outputs [2,4] and [3] of the sampled tokens do not match");
  EXPECT_EQ(sample(OutputKind::logits, 4, {two, {}, two, Tensor::zeros({4, 3}, DType::i32)}),
            "sample: outputs [2,4] and a token_buffer [4,3] do not match");
  EXPECT_NE(message_of([&] { ops::cross_entropy(logits, ids(4)); }).find("the token 4 at index 1"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { ops::cross_entropy(logits, ids(-1)); }), "no error");
  EXPECT_EQ(message_of([&] { ops::embedding(table, Tensor::zeros({2}, DType::f32)); }),
            "embedding: tokens are i32, not f32");
  EXPECT_NE(
      message_of([&] { ops::cross_entropy(logits, Tensor::zeros({3}, DType::i32)); }).find("[2,4]"),
      std::string::npos);
}

}  // namespace
}  // namespace linea
