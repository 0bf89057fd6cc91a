// Options of an attention at the sizes of a test.
#pragma once

#include <string>

#include "nn/attention.h"

namespace linea {

inline AttentionOptions options_of(const std::string& attention, int64_t heads, int64_t key_size,
                                   int64_t value_size, DType dtype) {
  AttentionOptions options;
  options.name = attention;
  options.heads = heads;
  options.key_size = key_size;
  options.value_size = value_size;
  options.dtype = dtype;
  return options;
}

// The given settings that this attention declares.
inline Settings declared_only(const std::string& attention, const Settings& given) {
  Settings result;
  for (const auto& [key, value] : given)
    if (find_setting(find_attention(attention).settings, key) != nullptr) result[key] = value;
  return result;
}

}  // namespace linea
