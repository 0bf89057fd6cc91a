// A Transformer that is trained in milliseconds.
#pragma once

#include "nn/transformer.h"

namespace linea {

inline ModelConfig small_transformer(int64_t layers) {
  ModelConfig config;
  config.layers = layers;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 40;
  config.length = 48;
  config.vocab_size = config.input_vocab_size = 11;
  config.dropout = 0.3f;
  return config;
}

}  // namespace linea
