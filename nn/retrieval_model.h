// The model of the retrieval task: one bare attention without positions, norms, residual or
// feed-forward layer, so that the capacity of its state decides the result. Keys and queries are
// learned, values are fixed one-hot vectors, and the output matrix starts as a diagonal.
//
//   [q, k] = W e_token + W' e'_second   v = one-hot(second)   outputs = output(attention(q, k, v))
//
// Source: Schlag 2021, section 6.1 (where the loss is the squared error of y).
#pragma once

#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/model.h"
#include "nn/self_attention.h"

namespace linea {

class RetrievalModel final : public Model {
 public:
  // Error: more than one layer or head, reversible blocks.
  explicit RetrievalModel(const ModelConfig& config);

  Var forward(const ModelInputs& in, bool training, Var* auxiliary = nullptr) const override;

  void scale_queries_from_softmax(int64_t layer) override;
  int64_t matrix_weights() const override;

 private:
  Embedding tokens_, second_tokens_;
  Var one_hot_;
  Linear qk_, second_qk_, output_;
  GateLayer gate_;
};

}  // namespace linea
