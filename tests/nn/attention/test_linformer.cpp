// Mixtures of positions: the limit, sequences shorter than the matrices, refusals, and padding that is mixed
// in.
#include <cmath>

#include "autograd/ops.h"
#include "nn/verify/conformance_tools.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> linformer(int64_t slots, const std::string& share, const Sizes& sizes) {
  AttentionOptions options =
      options_of("linformer", sizes.heads, sizes.key_size, sizes.value_size, DType::f64);
  options.settings = {{"slots", slots}, {"share", share}};
  options.length = sizes.length;
  return make_attention(options);
}

// A slot for each position, E = F = I.
TEST(Linformer, OfIdentitiesIsSoftmax) {
  const Sizes sizes{2, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto softmax = make_attention(
      options_of("softmax", sizes.heads, sizes.key_size, sizes.value_size, DType::f64));
  const Outcome expected = run(*softmax, &Attention::forward, x, not_causal());
  for (const char* share : {"kv", "none", "heads"}) {
    const auto attention = linformer(90, share, sizes);
    for (const Parameter& parameter : attention->parameters()) {
      std::vector<double> values(static_cast<size_t>(parameter.var.value().numel()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = i / 90 % 90 == i % 90 ? 1 : 0;
      write_values(values, parameter.var.value());
    }
    const Outcome found = run(*attention, &Attention::forward, x, not_causal());
    EXPECT_LE(relative_error(found.y, expected.y), 1e-12) << share;
    EXPECT_LE(gradient_error(found, expected), 1e-12) << share;
  }
}

TEST(Linformer, SharesItsMatrices) {
  const Sizes sizes{1, 3, 20, 4, 4};
  const auto shapes = [&](const char* share) {
    std::string all;
    for (const Parameter& parameter : linformer(5, share, sizes)->parameters())
      all += parameter.name + parameter.var.shape().str() + " ";
    return all;
  };
  EXPECT_EQ(shapes("kv"), "compress_k[3,20,5] ");
  EXPECT_EQ(shapes("none"), "compress_k[3,20,5] compress_v[3,20,5] ");
  EXPECT_EQ(shapes("heads"), "compress_k[1,20,5] ");
}

// By the first rows of E, whose others get no gradient.
TEST(Linformer, ShorterSequencesTakeTheFirstRows) {
  const Sizes sizes{2, 2, 30, 5, 7}, shorter{2, 2, 19, 5, 7};
  const Inputs x = draw(shorter, DType::f64);
  const auto longer = linformer(4, "kv", sizes), own = linformer(4, "kv", shorter);
  const std::vector<double> from = longer->parameters()[0].var.value().to_doubles();
  std::vector<double> rows;
  for (const size_t head : {0, 1})
    rows.insert(rows.end(), from.begin() + static_cast<std::ptrdiff_t>(head * 120),
                from.begin() + static_cast<std::ptrdiff_t>(head * 120 + 76));
  write_values(rows, own->parameters()[0].var.value());
  const Outcome found = run(*longer, &Attention::forward, x, not_causal()),
                expected = run(*own, &Attention::forward, x, not_causal());
  EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
  EXPECT_LE(relative_error(found.dk, expected.dk), 1e-12);
  const std::vector<double> gradient = found.dparameters[0].to_doubles();
  for (size_t i = 0; i < gradient.size(); ++i)
    if (i % 120 >= 76) {
      EXPECT_EQ(gradient[i], 0);
    }
}

TEST(Linformer, RefusesWhatItHasNoMatricesFor) {
  const Sizes sizes{1, 1, 9, 4, 4}, longer{1, 1, 10, 4, 4};
  const auto attention = linformer(4, "kv", sizes);
  expect_error(ErrorKind::usage, {"9 positions", "10 are given", "`length`"}, [&] {
    run(*attention, &Attention::forward, draw(longer, DType::f64), not_causal());
  });
  expect_error(ErrorKind::usage, {"linformer has no causal form", "each slot mixes all positions"},
               [&] {
                 run(*attention, &Attention::forward, draw(sizes, DType::f64), {true, {}});
               });
  EXPECT_THROW(attention->start(1, DType::f64), Error);
}

// Padding is mixed into the slots, as in the Long Range Arena's.
class MixesPadding final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward(in, {mask.causal, {}});
  }
};

TEST(Sabotage, PaddingMixedIntoSlots) {
  AttentionOptions options;
  options.name = "linformer";
  options.settings = {{"slots", int64_t{8}}};
  for (const char* name : {"padding = quadratic", "padding = cut", "padding: bits"})
    sabotage::expect_caught<MixesPadding>(name, options);
}

}  // namespace
}  // namespace linea
