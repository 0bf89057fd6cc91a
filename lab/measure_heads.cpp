// W20: what heads of a trained model do.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "lab/measure.h"
#include "lab/run_page.h"
#include "nn/verify/attend.h"
#include "nn/verify/show.h"
#include "tensor/ops.h"

namespace linea::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBlocks = 64, kLayers = 4;
constexpr int kDigits = 4;

Tensor to_f64(const Tensor& x) { return Tensor::from(x.to_doubles(), x.shape(), DType::f64); }
Var to_f64(const Var& x) { return x.defined() ? Var(to_f64(x.value())) : Var(); }

// The attention of a layer in f64, for values of another size.
std::unique_ptr<Attention> attention_in_f64(const Attention& trained, AttentionOptions options,
                                            int64_t values) {
  options.dtype = DType::f64;
  options.value_size = values;
  std::unique_ptr<Attention> attention = make_attention(options);
  std::vector<NamedTensor> own = attention->buffers();
  for (const Parameter& parameter : attention->parameters())
    own.push_back({parameter.name, parameter.var.value()});
  for (const NamedTensor& mine : own) {
    const Tensor theirs = attend::find_tensor(trained, mine.name);
    if (!theirs.defined() || theirs.shape() != mine.tensor.shape() ||
        mine.tensor.dtype() != DType::f64)
      fail(ErrorKind::input, "the weights of {} depend on the size of v", label_of(options));
    ops::copy_into(to_f64(theirs), mine.tensor);
  }
  attention->buffers_changed();
  return attention;
}

int64_t block_of(int64_t position, int64_t N) { return position * std::min(N, kBlocks) / N; }

// v [1,H,N,blocks]: 1 where a position is in a block. The output is the weight of each block.
Var block_values(int64_t H, int64_t N) {
  const int64_t blocks = std::min(N, kBlocks);
  std::vector<double> values(static_cast<size_t>(H * N * blocks), 0.0);
  for (int64_t row = 0; row < H * N; ++row)
    values[static_cast<size_t>(row * blocks + block_of(row % N, N))] = 1;
  return Var(Tensor::from(values, {1, H, N, blocks}, DType::f64));
}

// The weights of the first head, the mean over the queries of each block.
Rows block_weights(const Attention& attention, AttentionInputs in, const AttentionMask& mask) {
  const int64_t N = in.v.size(2), blocks = std::min(N, kBlocks);
  in.v = block_values(in.v.size(1), N);
  const Rows rows = split_rows(attention.forward(in, mask).value().to_doubles(), blocks);
  Rows means(static_cast<size_t>(blocks), std::vector<double>(static_cast<size_t>(blocks), 0.0));
  std::vector<double> counts(static_cast<size_t>(blocks), 0.0);
  for (int64_t i = 0; i < N; ++i) ++counts[static_cast<size_t>(block_of(i, N))];
  for (int64_t i = 0; i < N; ++i) {
    const auto block = static_cast<size_t>(block_of(i, N));
    for (size_t j = 0; j < means[block].size(); ++j)
      means[block][j] += rows[static_cast<size_t>(i)][j] / counts[block];
  }
  return means;
}

// The mean over rows of the sum of absolute differences.
double mean_difference(const Rows& a, const Rows& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j) sum += std::abs(a[i][j] - b[i][j]);
  return sum / static_cast<double>(a.size());
}

// S [F,M] of the first head after all positions; empty: the state is no matrix.
Rows last_state(const Attention& attention, const AttentionInputs& in) {
  const int64_t N = in.v.size(2), values = in.v.size(3);
  const auto by_position = [N](const Var& x) {  // [N,1,H,1,W]
    if (!x.defined()) return Tensor();
    const int64_t H = x.size(1), W = x.size(3);
    return ops::permute(x.value(), {{1, 1, H, N}, {0, 1, 3, 2}, W}, {N, 1, H, 1, W});
  };
  const Tensor q = by_position(in.q), k = by_position(in.k), v = by_position(in.v),
               gate = by_position(in.gate);
  const auto row = [](const Tensor& x, int64_t n) {
    return x.defined() ? Var(x.select(n)) : Var();
  };
  const std::unique_ptr<AttentionState> state = attention.start(1, DType::f64);
  for (int64_t n = 0; n < N; ++n) {
    AttentionInputs now{row(q, n), row(k, n), row(v, n), row(gate, n)};
    now.gate_form = in.gate_form;
    attention.step(*state, now);
  }
  for (const auto& [name, tensor] : attend::parts_of(*state, values))
    if (name == "S") return split_rows(tensor.select(0).select(0).to_doubles(), values);
  return {};
}

Json layer_json(const Model& model, const AttentionInputs& inputs, const AttentionMask& mask,
                int64_t layer) {
  const ModelConfig& config = model.config();
  const Attention& trained = *model.attentions().at(static_cast<size_t>(layer));
  AttentionInputs in{to_f64(inputs.q), to_f64(inputs.k), to_f64(inputs.v), to_f64(inputs.gate)};
  in.gate_form = inputs.gate_form;
  const AttentionOptions options = config.attention_of(layer);
  Json json = {{"layer", layer + 1}, {"attention", label_of(options)}};
  const int64_t N = in.v.size(2);
  try {
    if (!trained.traits().weighs_values)
      fail(ErrorKind::input, "the output of {} is no weighted sum of v", label_of(options));
    const auto attention = attention_in_f64(trained, options, std::min(N, kBlocks));
    const Rows weights = block_weights(*attention, in, mask);
    json["weights"] = rows_json(weights, kDigits);
    if (config.causal && attention->traits().state_growth == 0)
      json["state"] =
          rows_json(last_state(*attention_in_f64(trained, options, in.v.size(3)), in), kDigits);
    if (in.q.defined() && in.k.defined()) {
      AttentionOptions softmax = options;
      softmax.name = "softmax";
      softmax.settings = {};
      softmax.dtype = DType::f64;
      softmax.value_size = std::min(N, kBlocks);
      in.gate = {};
      const Rows same = block_weights(*make_attention(softmax), in, mask);
      json["softmax"] = rows_json(same, kDigits);
      json["apart"] = rounded(mean_difference(weights, same), kDigits);
    }
  } catch (const Error& error) {
    json["reason"] = error.what();
  }
  return json;
}

}  // namespace

Json measure_heads(const Model& model, const ModelInputs& inputs) {
  const NoGrad no_grad;
  const std::vector<AttentionInputs> all = model.attention_inputs(inputs);
  if (all.empty()) return nullptr;
  const auto layers = static_cast<int64_t>(all.size()), shown = std::min(layers, kLayers);
  const int64_t N = all[0].v.size(2);  // skipped positions are not among them
  Json json = {{"positions", N}, {"blocks", std::min(N, kBlocks)}, {"layers", Json::array()}};
  for (int64_t i = 0; i < shown; ++i) {
    const int64_t layer = shown == 1 ? 0 : i * (layers - 1) / (shown - 1);
    json["layers"].push_back(layer_json(model, all[static_cast<size_t>(layer)],
                                        {model.config().causal, inputs.valid}, layer));
  }
  return json;
}

}  // namespace linea::lab
