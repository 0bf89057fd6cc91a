// The list of mechanisms. A program with a list of its own (web/live.cpp) leaves this file out, and what is
// not in its list with it.
#include "nn/attention/builtin.h"

namespace linea {

std::vector<AttentionEntry> builtin_attentions() {
  std::vector<AttentionEntry> all;
  for (const auto entry :
       {average_entry,   bpt_entry,     induced_entry, informer_entry,    linear_attention_entry,
        linformer_entry, lsh_entry,     luna_entry,    mca_entry,         nystrom_entry,
        performer_entry, pooling_entry, prior_entry,   routing_entry,     sinkhorn_entry,
        soft_vq_entry,   softmax_entry, sparse_entry,  synthesizer_entry, topk_entry,
        vq_entry})
    all.push_back(entry());
  for (const auto& aliases : {clustered_entries(), linear_aliases(), sparse_aliases()})
    all.insert(all.end(), aliases.begin(), aliases.end());
  return all;
}

}  // namespace linea
