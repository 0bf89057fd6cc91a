// The mechanisms of this folder.
#pragma once

#include "nn/attention.h"

namespace linea {

// What the registry of nn/attention.cpp begins with.
std::vector<AttentionEntry> builtin_attentions();

// Each in its own file.
std::vector<AttentionEntry> clustered_entries();
AttentionEntry informer_entry();
AttentionEntry induced_entry();
AttentionEntry average_entry();
AttentionEntry bpt_entry();
AttentionEntry linear_attention_entry();
std::vector<AttentionEntry> linear_aliases();
AttentionEntry linformer_entry();
AttentionEntry lsh_entry();
AttentionEntry luna_entry();
AttentionEntry nystrom_entry();
AttentionEntry mca_entry();
AttentionEntry performer_entry();
AttentionEntry pooling_entry();
AttentionEntry prior_entry();
AttentionEntry routing_entry();
AttentionEntry sinkhorn_entry();
AttentionEntry soft_vq_entry();
AttentionEntry softmax_entry();
AttentionEntry sparse_entry();
std::vector<AttentionEntry> sparse_aliases();
AttentionEntry synthesizer_entry();
AttentionEntry topk_entry();
AttentionEntry vq_entry();

}  // namespace linea
