// Options of an attention at the sizes of a test.
#pragma once

#include <string>

#include "nn/attention.h"

namespace linea {

inline AttentionOptions options_of(const std::string& attention, int64_t heads, int64_t key_size,
                                   int64_t value_size, DType dtype) {
  AttentionOptions options;
  options.attention = attention;
  options.heads = heads;
  options.key_size = key_size;
  options.value_size = value_size;
  options.dtype = dtype;
  return options;
}

}  // namespace linea
