// The pre-norm Transformer decoder: tokens in, outputs of the next token out, in parallel over a
// whole sequence (training) or one position at a time with a running state (sampling).
//
//   x = E[token] + C[class] + P[position]            C: none, or that of nn/embedding.h
//   x = x + out(attention(split(qkv(norm1(conv(x))))))
//   x = x + down(gelu(up(norm2(conv(x)))))           each layer; conv: the identity, or
//                                                    nn/causal_convolution.h
//   outputs = output(norm(x))                        their meaning: nn/output_head.h
//
// With skip_blank the blocks compute the positions of images that are not blank (nn/blank.h), and a blank position
// n, with h of the last position before it that is not, has
//
//   u = E[token] + C[class] + P[n] + h
//   x = u + down(gelu(up(norm(u))))                  `up` of kBlankWidth rows
//
// Reversible blocks have two streams, both x at first, of which each adds to the other
// (autograd/var.h): the attention of x2 to x1, then the feed-forward layer of x1 to x2; the output
// layer reads x1 + x2. Sources: Vaswani 2017; pre-norm and initialization as GPT-2 (Radford 2019).
#pragma once

#include <optional>
#include <vector>

#include "nn/embedding.h"
#include "nn/model.h"
#include "nn/transformer_block.h"

namespace linea {

class Transformer final : public Model {
 public:
  explicit Transformer(const ModelConfig& config);

  Var forward(const ModelInputs& in, bool training, Var* auxiliary = nullptr) const override;
  std::vector<AttentionInputs> attention_inputs(const ModelInputs& in) const override;
  DecodeState start(int64_t batch) const override;
  Tensor decode(DecodeState& state, const Tensor& ids) const override;
  Tensor decode_blank(const DecodeState& state, const Tensor& sequences,
                      const Tensor& positions) const override;

  void scale_queries_from_softmax(int64_t layer) override;
  int64_t matrix_weights() const override;

 private:
  // The weight of a tied output layer: the tokens that are predicted come first in the table.
  Var tied_weight() const { return rows(tokens_.weight, 0, config_.vocab_size); }
  Var embed(const Tensor& ids) const;
  Var outputs(const Var& x) const;
  // What the outputs of all positions read; `pass`: what it gives besides that.
  Var run(const ModelInputs& in, bool training, BlockPass pass) const;
  // The blocks, of x [B,N,dim].
  Var run_blocks(Var x, bool training, BlockPass pass) const;
  // run() of x [B,N,dim] where the blocks compute some of its positions.
  Var run_packed(const Var& x, const Tensor& ids, bool training, BlockPass pass) const;
  Tensor embed_position(const DecodeState& state, const Tensor& ids) const;
  void prepare_for_sampling();

  Embedding tokens_;
  PositionEmbedding positions_;
  ClassEmbedding classes_;
  std::vector<TransformerBlock> blocks_;
  std::optional<FeedForward> blank_;  // of the positions that the blocks skip
  LayerNorm norm_;
  Linear output_;  // undefined where it is tied to the embedding
};

}  // namespace linea
