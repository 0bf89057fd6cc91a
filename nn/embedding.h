// Tables that turn tokens and positions into vectors.
#pragma once

#include <string>
#include <vector>

#include "nn/parameter.h"

namespace linea {

struct ModelConfig;

// x_r = E[id_r], E [vocab_size,dim] ~ N(0, stddev^2).
struct Embedding {
  Embedding() = default;
  Embedding(ParameterInit& init, const std::string& name, int64_t vocab_size, int64_t dim,
            double stddev, bool optional = false)
      : weight(init.normal(name + ".weight", {vocab_size, dim}, stddev, optional)) {}

  Var forward(const Tensor& ids) const;  // i32 [...] -> [...,dim]

  Var weight;
};

// x + P[position], P [length,dim] learned, or
//   P[n, 2i] = sin(n / 10000^(2i/dim)), P[n, 2i+1] = cos(n / 10000^(2i/dim))
// (Vaswani 2017, section 3.5), or, of images, learned P[n] + R[row] + K[column] + C[channel] of the
// token that position n predicts. Without a table: `rotary`, where attentions turn their rows, and
// `none`, where the order is known by what decays, by convolutions and by the causal mask alone.
inline std::vector<std::string> position_kinds() {
  return {"learned", "sinusoidal", "learned+grid", "rotary", "none"};
}
bool has_position_table(const std::string& kind);
struct PositionEmbedding {
  PositionEmbedding() = default;
  explicit PositionEmbedding(ParameterInit& init, const ModelConfig& config);

  Var forward(const Var& x, int64_t first) const;  // [B,N,dim], positions first .. first + N - 1
  // The sum of all tables, for positions first .. first + N - 1, [N,dim]; undefined without.
  Var table(int64_t N, int64_t first = 0) const;

  // A table of an axis of images, and its index i32 [length] of each position.
  struct Axis {
    Embedding embedding;
    Tensor index;
  };

  Var weight;              // undefined: x
  std::vector<Axis> axes;  // of images
};

// x[n] + E[class], E [classes + 1, dim], zeros at first: the class of a sequence is its first
// token, one of `classes` tokens from the vocabulary's end on; the last row is for other tokens.
struct ClassEmbedding {
  ClassEmbedding() = default;
  explicit ClassEmbedding(ParameterInit& init, const ModelConfig& config);

  Var forward(const Var& x, const Tensor& ids) const;  // x [B,N,dim], ids i32 [B,N]
  // One position, x [B,dim], ids [B]; `index` [B] remembers the class.
  Tensor step(const Tensor& x, const Tensor& ids, const Tensor& position,
              const Tensor& index) const;

  Var weight;  // undefined: x
  int64_t first = 0;
};

}  // namespace linea
