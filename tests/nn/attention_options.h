// Options of an attention at the sizes of a test.
#pragma once

#include <string>
#include <vector>

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

inline AttentionMask not_causal() { return {false, {}}; }

// The attentions that a model without images may have, with the variants that have a causal form.
inline std::vector<AttentionEntry> causal_attentions() {
  std::vector<AttentionEntry> result;
  for (AttentionEntry entry : attentions()) {
    std::erase_if(entry.variants, [&](const Settings& variant) {
      try {
        return !make_smallest({entry.name, variant})->traits().not_causal.empty();
      } catch (const Error&) {
        return true;  // it needs an image
      }
    });
    if (!entry.variants.empty()) result.push_back(entry);
  }
  return result;
}

// The given settings that this attention declares.
inline Settings declared_only(const std::string& attention, const Settings& given) {
  Settings result;
  for (const auto& [key, value] : given)
    if (find_setting(find_attention(attention).settings, key) != nullptr) result[key] = value;
  return result;
}

}  // namespace linea
