// The rule of docs/add-a-rule.md, whose code is in this file, word for word.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "autograd/ops.h"
#include "autograd/update_rule.h"
#include "nn/attention/mapped_attention.h"
#include "nn/feature_map.h"
#include "nn/verify/conformance.h"

namespace linea {
namespace {

// log a_h of every position, 0 in the padding.
RuleGates fixed_decays(const AttentionInputs& in, const Tensor& valid) {
  const Shape positions = check_heads("retention", in, valid);  // B, H, N
  std::vector<double> logs;
  for (int64_t i = 0; i < positions.numel(); ++i) {
    const int64_t head = i / positions[2] % positions[1];
    logs.push_back(std::log1p(-std::exp2(-5.0 - static_cast<double>(head))));
  }
  const DType dtype = in.qkv.defined() ? in.qkv.dtype() : in.q.dtype();
  return {.log_decay = clear_padding(Var(Tensor::from(logs, positions, dtype)), valid)};
}

RulePtr retention_rule() {
  return make_sum_rule({.name = "retention",
                        .source = "Sun 2023",
                        .causal_only = true,
                        .packed_qkv = true,
                        .heads_differ = true,
                        .gates = fixed_decays});
}

class Retention final : public MappedAttention {
 public:
  explicit Retention(const AttentionOptions& options)
      : MappedAttention(options, make_feature_map("elu", 1), retention_rule()) {}
};

TEST(AddARule, EveryFormAgrees) {
  const AttentionFactory make = [](const AttentionOptions& options) {
    return std::make_unique<Retention>(options);
  };
  for (const Check& check : check_attention({}, {true, "", make}))
    EXPECT_TRUE(check.passed) << check.name << ": " << check.measured << " " << check.detail;
}

// With phi = 1, y_2 = (a v_1 + v_2) / (a + 1).
TEST(AddARule, IsTheFormula) {
  AttentionOptions options;
  options.heads = 2;
  options.dtype = DType::f64;
  const Var zero(Tensor::zeros({1, 2, 2, 1}, DType::f64)),
      v(Tensor::from(std::vector<double>{1, 0, 1, 0}, {1, 2, 2, 1}));
  const std::vector<double> y =
      Retention(options).forward({zero, zero, v, Var()}, {}).value().to_doubles();
  EXPECT_NEAR(y[1], 31.0 / 63, 1e-15);
  EXPECT_NEAR(y[3], 63.0 / 127, 1e-15);
}

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(LINEA_SOURCE) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(AddARule, TheDocumentHasThisCode) {
  const std::string code = file_text("tests/nn/test_add_a_rule.cpp"),
                    document = file_text("docs/add-a-rule.md"), fence = "```cpp\n";
  size_t blocks = 0, end = 0;
  for (size_t begin = 0; (begin = document.find(fence, end)) != std::string::npos; ++blocks) {
    begin += fence.size();
    end = document.find("```", begin);
    const std::string block = document.substr(begin, end - begin);
    EXPECT_NE(code.find(block), std::string::npos) << block;
  }
  EXPECT_EQ(blocks, 4u);
}

}  // namespace
}  // namespace linea
