// Passes over parts of sequences (autograd/sequence_part.h) are those over whole ones: of attentions to the
// bit, of models.
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "nn/transformer.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/mail_part.h"
#include "tests/nn/small_transformer.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

using conformance::Inputs;
using conformance::Outcome;

// Positions [first, end) of x [B,H,N,W].
Tensor cut(const Tensor& x, int64_t first, int64_t end) {
  const int64_t n = end - first;
  return conformance::gather_rows(
      x, x.shape().with(2, n), [&](int64_t row) { return row / n * x.size(2) + first + row % n; });
}

// The parts of x one after the other.
Tensor joined(const std::vector<Tensor>& parts, const std::vector<int64_t>& cuts) {
  const Tensor& first = parts.front();
  std::vector<double> values(static_cast<size_t>(first.numel() / first.size(2) * cuts.back()));
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::vector<double> part = parts[p].to_doubles();
    const int64_t W = first.size(3), n = parts[p].size(2);
    for (size_t i = 0; i < part.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / W;
      values[static_cast<size_t>((row / n * cuts.back() + cuts[p] + row % n) * W) +
             i % static_cast<size_t>(W)] = part[i];
    }
  }
  return Tensor::from(values, first.shape().with(2, cuts.back()), first.dtype());
}

Outcome in_parts(const Attention& attention, const Inputs& x, const AttentionMask& mask,
                 const std::vector<int64_t>& cuts, int64_t tile) {
  for (const Parameter& parameter : attention.parameters()) Var(parameter.var).clear_grad();
  Mail mail;
  std::vector<std::unique_ptr<MailPart>> parts;
  std::vector<AttentionInputs> inputs;
  std::vector<Var> outputs;
  for (size_t p = 0; p + 1 < cuts.size(); ++p) {
    const auto own = [&](const Tensor& t) { return cut(t, cuts[p], cuts[p + 1]); };
    AttentionMask here{mask.causal, {}};
    if (mask.valid.defined()) {
      std::vector<int32_t> valid = mask.valid.to_vector<int32_t>();
      for (int32_t& n : valid)
        n = static_cast<int32_t>(std::clamp<int64_t>(n - cuts[p], 0, cuts[p + 1] - cuts[p]));
      here.valid = Tensor::from(valid, {x.q.size(0)});
    }
    parts.push_back(std::make_unique<MailPart>(mail, cuts, p, tile));
    inputs.push_back(conformance::inputs_for(attention, x.map(own), true));
    const UseSequencePart use(parts.back().get());
    outputs.push_back(attention.forward(inputs.back(), here));
  }
  for (size_t p = outputs.size(); p-- > 0;) backward(outputs[p], cut(x.dy, cuts[p], cuts[p + 1]));
  for (const auto& [to, box] : mail.boxes) EXPECT_TRUE(box.empty()) << "for part " << to.first;
  const auto all = [&](const auto& of) {
    std::vector<Tensor> tensors;
    for (size_t p = 0; p < outputs.size(); ++p) tensors.push_back(of(p));
    return joined(tensors, cuts);
  };
  Outcome outcome;
  outcome.y = all([&](size_t p) { return outputs[p].value(); });
  outcome.dq = all([&](size_t p) {
    return attention.traits().reads_queries ? inputs[p].q.grad()
                                            : Tensor::zeros(inputs[p].q.shape(), x.q.dtype());
  });
  outcome.dk = all([&](size_t p) {
    return attention.traits().reads_keys ? inputs[p].k.grad()
                                         : Tensor::zeros(inputs[p].k.shape(), x.q.dtype());
  });
  outcome.dv = all([&](size_t p) { return inputs[p].v.grad(); });
  if (inputs.front().gate.defined())
    outcome.dgate = all([&](size_t p) { return inputs[p].gate.grad(); });
  for (const Parameter& parameter : attention.parameters())
    outcome.dparameters.push_back(parameter.var.grad());
  return outcome;
}

// Those that take parts, in all variants.
std::vector<AttentionOptions> options_in_parts() {
  std::vector<AttentionOptions> result;
  for (const AttentionEntry& entry : causal_attentions())
    for (AttentionOptions options : entry.variant_options()) {
      options.heads = 3;
      options.key_size = 5;
      options.value_size = 7;
      if (make_attention(options)->traits().takes_parts) result.push_back(options);
    }
  return result;
}

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
