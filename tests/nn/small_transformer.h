// Transformers that train in milliseconds, and inputs for them.
#pragma once

#include <vector>

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

inline constexpr int64_t kTokens = 11;

inline ModelConfig small_model() {
  ModelConfig config;
  config.layers = 2;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 24;
  config.length = 20;
  config.vocab_size = kTokens;
  config.input_vocab_size = kTokens + 1;
  return config;
}

// Token ids [B,N], other ones for another salt.
inline Tensor some_ids(int64_t B, int64_t N, int32_t salt = 0) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < B * N; ++i)
    ids.push_back(static_cast<int32_t>((i * i * 7 + i * 3 + salt) % kTokens));
  return Tensor::from(ids, {B, N});
}

}  // namespace linea
