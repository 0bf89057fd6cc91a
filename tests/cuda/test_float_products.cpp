// How factors of float are multiplied inside attentions: exactly, in parts of TF32, or rounded to
// it.
#include <algorithm>

#include "nn/verify/conformance_tools.h"
#include "tests/cuda/parity.h"
#include "tests/nn/attention_options.h"

namespace linea::cuda_tests {
namespace {

class Multiplied {
 public:
  explicit Multiplied(FloatProducts products) { context().products = products; }
  ~Multiplied() { context().products = FloatProducts::exact; }
  Multiplied(const Multiplied&) = delete;
  Multiplied& operator=(const Multiplied&) = delete;
};

// y and the gradients of one call, several chunks long.
std::vector<std::vector<double>> results(AttentionOptions options, FloatProducts products) {
  const conformance::Sizes sizes{2, 2, 150, 12, 12};
  options.heads = sizes.heads;
  options.key_size = sizes.key_size;
  options.value_size = sizes.value_size;
  for (const auto& [key, value] : declared_only(options.name, {{"features", 20}, {"codes", 9}}))
    options.settings[key] = value;
  const Multiplied as(products);
  const conformance::Outcome made = conformance::run(*make_attention(options), &Attention::forward,
                                                     conformance::draw(sizes, DType::f32), {});
  std::vector<std::vector<double>> all;
  for (const Tensor* x : {&made.y, &made.dq, &made.dk, &made.dv, &made.dgate})
    if (x->defined()) all.push_back(numbers(*x));
  return all;
}

double apart(const std::vector<std::vector<double>>& got,
             const std::vector<std::vector<double>>& expected) {
  double max = 0;
  for (size_t i = 0; i < got.size(); ++i) max = std::max(max, distance(got[i], expected[i]));
  return max;
}

struct Named {
  const char *attention, *feature, *rule;
};

// Parts keep a float's digits; what is rounded does not, which also shows that both are asked for.
TEST(CudaFloatProducts, SplitProductsArePrecise) {
  for (const auto& [attention, feature, rule] : {Named{"linear", "elu", "sum"},
                                                 {"performer", "positive", "sum"},
                                                 {"linear", "elu", "gated"},
                                                 {"linear", "elu", "delta"},
                                                 {"linear", "exp", "sum"},
                                                 {"soft-vq", "", "sum"},
                                                 {"vq", "", "sum"},
                                                 {"softmax", "", "sum"}}) {
    if (left_out()) continue;
    AttentionOptions options;
    options.name = attention;
    options.settings = declared_only(attention, {{"feature", feature}, {"rule", rule}});
    SCOPED_TRACE(label_of(options));
    const auto expected = results(options, FloatProducts::exact);
    const On device(kCuda);
    const auto parts = results(options, FloatProducts::split);
    EXPECT_NE(parts, results(options, FloatProducts::exact));
    const double split = apart(parts, expected),
                 rounded = apart(results(options, FloatProducts::rounded), expected);
    EXPECT_LE(split, 1e-5);
    EXPECT_LE(rounded, 1e-2);
    EXPECT_GT(rounded, 1e-4);
  }
}

}  // namespace
}  // namespace linea::cuda_tests
