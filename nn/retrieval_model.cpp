#include "nn/retrieval_model.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "nn/self_attention.h"
#include "tensor/memory_report.h"

namespace linea {
namespace {

// Initial output scale: large enough for confident logits, small enough that gradients do not
// vanish.
constexpr float kOutputScale = 10;

// A matrix with `value` on its diagonal; rows past the columns are 0.
Tensor diagonal(int64_t rows, int64_t columns, float value) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < std::min(rows, columns); ++i)
    values[static_cast<size_t>(i * columns + i)] = value;
  return Tensor::from(values, {rows, columns});
}

}  // namespace

RetrievalModel::RetrievalModel(const ModelConfig& config) : Model(config) {
  const MemoryScope scope(MemoryPart::parameters);
  require(
      config_.layers == 1 && config_.heads == 1,
      "`layers` is {} and `heads` {}; the retrieval model has one layer and one head: `layers` 1 "
      "`heads` 1",
      config_.layers, config_.heads);
  const std::pair<const char*, bool> absent[] = {
      {"reversible", config_.reversible},
      {"positions", config_.positions == "rotary"},
      {"layer_convolution", config_.layer_convolution != "none"},
      {"attention_output", config_.attention_output != "plain"}};
  for (const auto& [setting, given] : absent)
    require(!given, "a task of pairs has one attention without `{}`: leave it out", setting);
  const int64_t dim = config_.dim, values = config_.vocab_size;
  const double stddev = 1 / std::sqrt(2.0 * static_cast<double>(dim));
  const std::string prefix = "blocks.0.";
  ParameterInit init(parameters_, static_cast<uint64_t>(config_.seed));
  tokens_ = Embedding(init, "token_embedding", config_.input_vocab_size, dim, 1.0);
  second_tokens_ = Embedding(init, "second_embedding", config_.second_vocab_size, dim, 1.0);
  one_hot_ = Var(diagonal(config_.second_vocab_size, values, 1.0f));
  qk_ = Linear(init, prefix + "qk", dim, 2 * dim, stddev, config_.bias, 2);
  second_qk_ = Linear(init, prefix + "second_qk", dim, 2 * dim, stddev, config_.bias, 2);
  attentions_ = {make_layer_attention(config_, 0)};
  gate_ = GateLayer(init, prefix, config_, *attentions_[0]);
  add_parameters(init, prefix, *attentions_[0]);
  output_.weight = Var(diagonal(values, values, kOutputScale), true);
  init.add({"output_head.weight", output_.weight});
}

Var RetrievalModel::forward(const ModelInputs& inputs, bool, Var* auxiliary) const {
  const Tensor &ids = inputs.ids, &second_ids = inputs.second_ids;
  require(second_ids.defined(), "this model reads two tokens at a position: give it both");
  const Var token = tokens_.forward(ids), second = second_tokens_.forward(second_ids);
  const Var qk = split_heads(add(qk_.forward(token), second_qk_.forward(second)), 2, 1);
  AttentionInputs in;
  in.q = select(qk, 0);
  in.k = select(qk, 1);
  in.v = select(split_heads(embedding(one_hot_, second_ids), 1, 1), 0);
  if (gate_.size > 0) gate_.add_gates(in, add(token, second));
  const AttentionMask mask{config_.causal, inputs.valid};
  add_auxiliary_loss(*attentions_[0], in, mask, auxiliary);
  return output_.forward(merge_heads(attentions_[0]->forward(in, mask)));
}

void RetrievalModel::scale_queries_from_softmax(int64_t) {
  scale_queries({qk_.weight, qk_.bias, second_qk_.weight, second_qk_.bias},
                attentions_[0]->traits().scale_from_softmax);
}

int64_t RetrievalModel::matrix_weights() const {
  return 4 * config_.dim * config_.dim + config_.vocab_size * config_.vocab_size;
}

}  // namespace linea
