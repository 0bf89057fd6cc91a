// Tables that turn tokens and positions into vectors.
#pragma once

#include <string>

#include "nn/parameter.h"

namespace linea {

// x_r = E[id_r], E [vocab_size,dim] ~ N(0, stddev^2).
struct Embedding {
  Embedding() = default;
  Embedding(ParameterInit& init, const std::string& name, int64_t vocab_size, int64_t dim,
            double stddev)
      : weight(init.normal(name + ".weight", {vocab_size, dim}, stddev)) {}

  Var forward(const Tensor& ids) const;  // i32 [...] -> [...,dim]

  Var weight;
};

// x + P[position], P [length,dim] learned, or
//   P[n, 2i] = sin(n / 10000^(2i/dim)), P[n, 2i+1] = cos(n / 10000^(2i/dim))
// (Vaswani 2017, section 3.5).
struct PositionEmbedding {
  PositionEmbedding() = default;
  // kind: learned or sinusoidal.
  PositionEmbedding(ParameterInit& init, const std::string& kind, int64_t length, int64_t dim);

  Var forward(const Var& x) const;  // [B,N,dim], positions 0 .. N - 1
  // One position of B sequences: E[id] + P[position] -> [B,dim] as `dtype`. ids, position i32 [B]
  Tensor step(const Embedding& tokens, const Tensor& ids, const Tensor& position,
              DType dtype) const;

  Var weight;
};

}  // namespace linea
