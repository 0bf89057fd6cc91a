// Passes over parts of sequences (autograd/sequence_part.h) are those over whole ones: of attentions to the
// bit, of models.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tests/nn/in_parts.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

TEST(SequenceParts, OfAttentionsHaveTheBitsOfWholeSequences) {
  std::set<std::string> seen;
  for (AttentionOptions options : share_of(options_in_parts(), 3)) {
    seen.insert(options.name);
    SCOPED_TRACE(label_of(options));
    for (const DType dtype : {DType::f32, DType::f64}) {
      options.dtype = dtype;
      const std::unique_ptr<Attention> attention = make_attention(options);
      const double stddev = attention->traits().signed_weights ? 0.5 : 1;
      const Inputs x = conformance::draw({2, 3, 1301, 5, 7}, dtype, stddev);
      for (const bool padded : {false, true}) {
        const AttentionMask mask{
            true, padded ? Tensor::from(std::vector<int32_t>{300, 1301}, {2}) : Tensor()};
        const Outcome whole = run(*attention, &Attention::forward, x, mask);
        std::vector<std::pair<std::vector<int64_t>, int64_t>> ways = {{{0, 256, 1024, 1301}, 2}};
        if (dtype == DType::f32 && !padded)
          ways.insert(ways.end(), {{{0, 768, 1301}, 0}, {{0, 256, 512, 768, 1280, 1301}, 1}});
        for (const auto& [cuts, tile] : ways) {
          const Outcome parts = in_parts(*attention, x, mask, cuts, tile);
          using conformance::anywhere, conformance::different_bits;
          EXPECT_EQ(different_bits(whole.y, parts.y, anywhere), 0);
          const auto a = whole.gradients(), b = parts.gradients();
          for (size_t i = 0; i < a.size(); ++i)
            EXPECT_EQ(different_bits(a[i].second, b[i].second, anywhere), 0) << a[i].first;
          for (size_t i = 0; i < whole.dparameters.size(); ++i)
            EXPECT_LE(relative_error(whole.dparameters[i], parts.dparameters[i], 1e-3),
                      dtype == DType::f32 ? 1e-4 : 1e-10);
        }
      }
    }
  }
  for (const char* name :
       {"linear", "performer", "soft-vq", "vq", "gdn", "ssd", "retnet", "gla", "kda"})
    EXPECT_TRUE(kSanitized || seen.count(name) == 1) << name;
}

// States that a scan combines are sums in another order. Gates let them decay to exp(-400) and below within a
// part.
TEST(SequenceParts, StatesThatAScanCombinesAreNearThoseOfWholeSequences) {
  int64_t tried = 0;
  for (AttentionOptions options : share_of(options_in_parts(), 3)) {
    options.dtype = DType::f64;
    const std::unique_ptr<Attention> attention = make_attention(options);
    if (!attention->traits().denominators || attention->traits().straight_through) continue;
    ++tried;
    SCOPED_TRACE(label_of(options));
    const double stddev = attention->traits().signed_weights ? 0.5 : 1;
    const Inputs x = conformance::draw({2, 3, 1301, 5, 7}, DType::f64, stddev);
    const AttentionMask mask{true, Tensor::from(std::vector<int32_t>{300, 1301}, {2})};
    const Outcome whole = run(*attention, &Attention::forward, x, mask);
    for (const std::vector<int64_t>& cuts :
         {std::vector<int64_t>{0, 1301}, {0, 256, 1024, 1301}, {0, 256, 512, 768, 1280, 1301}}) {
      const Outcome parts = in_parts(*attention, x, mask, cuts, -1);
      EXPECT_LE(relative_error(whole.y, parts.y), 1e-10) << cuts.size();
      EXPECT_LE(gradient_error(whole, parts), 1e-10) << cuts.size();
    }
  }
  EXPECT_GE(tried, kSanitized ? 3 : 10);
}

struct Convolved {
  Tensor y, dx, dw;
};

// A convolution of x by w, and its gradients for dy: x, dy [B,1,N,C], w [offsets,C]; cuts {0,N}: of whole sequences.
Convolved convolve(const ConvolutionShape& shape, const Tensor& x, const Tensor& w,
                   const Tensor& dy, const std::vector<int64_t>& cuts) {
  Mail mail;
  std::vector<std::unique_ptr<MailPart>> parts;
  std::vector<Var> inputs, outputs;
  const Var weights(w, true);
  const auto own = [&](const Tensor& t, size_t p) {
    const Tensor rows = cut(t, cuts[p], cuts[p + 1]);
    return rows.reshape({rows.size(0), rows.size(2), rows.size(3)});
  };
  for (size_t p = 0; p + 1 < cuts.size(); ++p) {
    parts.push_back(std::make_unique<MailPart>(mail, cuts, p));
    inputs.emplace_back(own(x, p), true);
    const UseSequencePart use(cuts.size() > 2 ? parts.back().get() : nullptr);
    outputs.push_back(causal_convolution(inputs.back(), weights, shape));
  }
  for (size_t p = outputs.size(); p-- > 0;) backward(outputs[p], own(dy, p));
  for (const auto& [to, box] : mail.boxes) EXPECT_TRUE(box.empty()) << "for part " << to.first;
  const auto all = [&](const auto& of) {
    std::vector<Tensor> tensors;
    for (size_t p = 0; p < outputs.size(); ++p) {
      const Tensor one = of(p);
      tensors.push_back(one.reshape({one.size(0), 1, one.size(1), one.size(2)}));
    }
    return joined(tensors, cuts);
  };
  return {all([&](size_t p) { return outputs[p].value(); }),
          all([&](size_t p) { return inputs[p].grad(); }), weights.grad()};
}

// Parts end within rows of images of 4 pixels of 3 channels; the last is as short as what is read back.
TEST(SequenceParts, ConvolutionsReadTheRowsBeforeTheirPart) {
  const ConvolutionShape text{.count = 4, .offset = {0, 1, 2, 3}},
      images{.count = 6,
             .offset = {0, 1, 2, 8, 11, 14},
             .rows_up = {0, 0, 0, 1, 1, 1},
             .column_shift = {0, 0, 0, 1, 0, -1},
             .width = 4,
             .channels = 3};
  for (const ConvolutionShape& shape : {text, images}) {
    const Inputs x = conformance::draw({2, 1, 72, 5, 5}, DType::f64, 1);
    const Tensor w = cut(x.v, 0, shape.count).select(0).reshape({shape.count, 5});
    const Convolved whole = convolve(shape, x.q, w, x.k, {0, 72});
    for (const std::vector<int64_t>& cuts :
         {std::vector<int64_t>{0, 31, 72}, {0, 19, 38, 58, 72}}) {
      const Convolved parts = convolve(shape, x.q, w, x.k, cuts);
      EXPECT_LE(relative_error(whole.y, parts.y), 1e-14) << cuts.size();
      EXPECT_LE(relative_error(whole.dx, parts.dx), 1e-14) << cuts.size();
      EXPECT_LE(relative_error(whole.dw, parts.dw), 1e-14) << cuts.size();
    }
  }
}

}  // namespace
}  // namespace linea
