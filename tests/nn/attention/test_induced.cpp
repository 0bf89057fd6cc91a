// Induced points: the limit, the formula by loops, and refusals.
#include <cmath>

#include "nn/verify/conformance_tools.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/verify/saboteur.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> induced(int64_t slots, const Sizes& sizes) {
  AttentionOptions options =
      options_of("induced", sizes.heads, sizes.key_size, sizes.value_size, DType::f64);
  options.settings["slots"] = slots;
  return make_attention(options);
}

// Keys are 3 e_j, and point s is so near to e_s that it reads v_s alone, which is k_s: then y is softmax
// attention with v = k.
TEST(Induced, OfAPointForEachKeyIsSoftmax) {
  const Sizes sizes{2, 2, 6, 6, 6};
  Inputs x = draw(sizes, DType::f64);
  std::vector<double> keys(x.k.to_doubles().size()), points(2 * 36);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i / 6 % 6 == i % 6 ? 3 : 0;
  for (size_t i = 0; i < points.size(); ++i) points[i] = i / 6 % 6 == i % 6 ? 1000 : 0;
  x.k = x.v = Tensor::from(keys, x.k.shape());
  const auto attention = induced(6, sizes),
             softmax = make_attention(options_of("softmax", 2, 6, 6, DType::f64));
  write_values(points, attention->parameters()[0].var.value());
  const Outcome found = run(*attention, &Attention::forward, x, not_causal()),
                expected = run(*softmax, &Attention::forward, x, not_causal());
  EXPECT_LE(relative_error(found.y, expected.y), 1e-12);
  EXPECT_LE(relative_error(found.dq, expected.dq), 1e-12);
}

std::vector<double> softmax_row(std::vector<double> scores) {
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score);
  for (double& score : scores) score /= sum;
  return scores;
}

TEST(Induced, IsItsFormula) {
  const Sizes sizes{1, 2, 11, 3, 4};
  const Inputs x = draw(sizes, DType::f64);
  const auto attention = induced(5, sizes);
  const auto all = attention->parameters();
  for (size_t p = 0; p < 3; ++p)  // other matrices than the identity
    write_values(random_tensor(all[p].var.shape(), static_cast<uint32_t>(20 + p)).to_doubles(),
                 all[p].var.value());
  const auto at = [](const Tensor& t) {
    return [values = t.to_doubles(), rows = t.size(-2), columns = t.size(-1)](int64_t h, int64_t n,
                                                                              int64_t c) {
      return values[static_cast<size_t>((h * rows + n) * columns + c)];
    };
  };
  const auto q = at(x.q), k = at(x.k), v = at(x.v), p = at(all[0].var.value()),
             wk = at(all[1].var.value()), wv = at(all[2].var.value());
  std::vector<double> expected;
  for (int64_t h = 0; h < 2; ++h) {
    double slots[5][4], keys[5][3], values[5][4];
    for (int64_t s = 0; s < 5; ++s) {
      std::vector<double> scores;
      for (int64_t j = 0; j < 11; ++j) {
        scores.push_back(0);
        for (int64_t d = 0; d < 3; ++d) scores.back() += p(h, s, d) * k(h, j, d) / std::sqrt(3.0);
      }
      const std::vector<double> weights = softmax_row(scores);
      for (int64_t m = 0; m < 4; ++m) {
        slots[s][m] = 0;
        for (int64_t j = 0; j < 11; ++j)
          slots[s][m] += weights[static_cast<size_t>(j)] * v(h, j, m);
      }
      for (int64_t c = 0; c < 4; ++c) {
        values[s][c] = 0;
        if (c < 3) keys[s][c] = 0;
        for (int64_t m = 0; m < 4; ++m) {
          values[s][c] += slots[s][m] * wv(h, m, c);
          if (c < 3) keys[s][c] += slots[s][m] * wk(h, m, c);
        }
      }
    }
    for (int64_t i = 0; i < 11; ++i) {
      std::vector<double> scores;
      for (const auto& key : keys) {
        scores.push_back(0);
        for (int64_t d = 0; d < 3; ++d) scores.back() += q(h, i, d) * key[d] / std::sqrt(3.0);
      }
      const std::vector<double> weights = softmax_row(scores);
      for (int64_t m = 0; m < 4; ++m) {
        expected.push_back(0);
        for (size_t s = 0; s < 5; ++s) expected.back() += weights[s] * values[s][m];
      }
    }
  }
  for (const Method method : {&Attention::forward, &Attention::quadratic})
    EXPECT_LE(relative_error(run(*attention, method, x, not_causal()).y,
                             Tensor::from(expected, {1, 2, 11, 4})),
              1e-12);
}

TEST(Induced, HasNoCausalForm) {
  const Sizes sizes{1, 1, 9, 4, 4};
  const auto attention = induced(3, sizes);
  expect_error(ErrorKind::usage,
               {"induced has no causal form", "each induced point reads the whole set", "luna"},
               [&] {
                 run(*attention, &Attention::forward, draw(sizes, DType::f64), {true, {}});
               });
  EXPECT_THROW(attention->start(1, DType::f64), Error);
}

// Induced points that read padding.
class ReadsPadding final : public sabotage::Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return right_->forward(in, {mask.causal, {}});
  }
};

TEST(Sabotage, PaddingReadByInducedPoints) {
  AttentionOptions options;
  options.name = "induced";
  options.settings = {{"slots", int64_t{8}}};
  for (const char* name : {"padding = quadratic", "padding = cut", "padding: bits"})
    sabotage::expect_caught<ReadsPadding>(name, options);
}

}  // namespace
}  // namespace linea
