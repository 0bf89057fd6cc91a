// An attention over parts of sequences (autograd/sequence_part.h), one after the other in one thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/mail_part.h"

namespace linea {

using conformance::Inputs;
using conformance::Outcome;

// Positions [first, end) of x [B,H,N,W].
inline Tensor cut(const Tensor& x, int64_t first, int64_t end) {
  const int64_t n = end - first;
  return conformance::gather_rows(
      x, x.shape().with(2, n), [&](int64_t row) { return row / n * x.size(2) + first + row % n; });
}

// The parts of x one after the other.
inline Tensor joined(const std::vector<Tensor>& parts, const std::vector<int64_t>& cuts) {
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

// The attention over parts that end at `cuts`, and its gradients; tile: see MailPart.
inline Outcome in_parts(const Attention& attention, const Inputs& x, const AttentionMask& mask,
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
inline std::vector<AttentionOptions> options_in_parts() {
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

}  // namespace linea
