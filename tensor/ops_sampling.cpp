// Sampling ops of tensor/ops.h.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {

Tensor argmax(const Tensor& x) {
  Tensor index({num_rows(x)}, DType::i32);
  launch(x.dtype(), "argmax", [&](const auto& table) {
    table.argmax(context(), data(x), data(index), num_rows(x), columns(x));
  });
  return index;
}

void check_sampling_params(const SamplingParams& params) {
  require(params.temperature > 0, "--temperature is {}; it must be above 0 (or say --greedy)",
          params.temperature);
  require(params.top_k >= 0, "--top-k is {}; it must be at least 1, or 0 for all tokens",
          params.top_k);
  require(params.top_p > 0 && params.top_p <= 1, "--top-p is {}; it must be above 0 and at most 1",
          params.top_p);
}

void sample(OutputKind kind, const Tensor& outputs, int64_t V, const SamplingParams& params,
            const RandomStream& stream, const Sampled& to) {
  if (!params.greedy) check_sampling_params(params);
  const int64_t rows = num_rows(outputs);
  if (kind == OutputKind::logistics) {
    require_mixtures("sample", outputs, V);
  } else {
    require(columns(outputs) == V, "sample: outputs {} are no logits of {} tokens", outputs.shape(),
            V);
  }
  for (const Tensor& x : {to.tokens, to.positions, to.count})
    require(!x.defined() || x.numel() == rows,
            "sample: outputs {} and {} of the sampled tokens do not match", outputs.shape(),
            x.shape());
  require(!to.token_buffer.defined() || columns(to.token_buffer) == rows,
          "sample: outputs {} and a token_buffer {} do not match", outputs.shape(),
          to.token_buffer.shape());
  const SampledTokens sampled{data(to.tokens),
                              data_or_null(to.positions),
                              data_or_null(to.count),
                              data_or_null(to.token_buffer),
                              rows,
                              to.token_buffer.defined() ? to.token_buffer.size(0) : 0};
  launch(outputs.dtype(), "sample", [&](const auto& table) {
    table.sample(context(), kind, data(outputs), V, params, stream, sampled);
  });
}

Tensor sample(const Tensor& logits, const SamplingParams& params, const RandomStream& stream) {
  const Sampled sampled{Tensor({num_rows(logits)}, DType::i32)};
  sample(OutputKind::logits, logits, columns(logits), params, stream, sampled);
  return sampled.tokens;
}

}  // namespace linea::ops
