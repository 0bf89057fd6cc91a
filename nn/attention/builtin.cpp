#include "nn/attention/builtin.h"

namespace linea {

std::vector<AttentionEntry> builtin_attentions() {
  return {linear_attention_entry(), performer_entry(), soft_vq_entry(), softmax_entry(),
          vq_entry()};
}

}  // namespace linea
