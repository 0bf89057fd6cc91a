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
  config.vocabulary = config.input_vocabulary = 11;
  config.dropout = 0.3f;
  return config;
}

}  // namespace linea
