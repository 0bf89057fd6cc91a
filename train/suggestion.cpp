#include "train/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "train/config.h"

namespace linea {
namespace {

struct ForeignName {
  const char *theirs, *ours;
};

// With underscores, whatever the other program writes.
constexpr ForeignName kForeignNames[] = {
    // the model
    {"n_layer", "layers"},
    {"n_layers", "layers"},
    {"num_layers", "layers"},
    {"num_hidden_layers", "layers"},
    {"depth", "layers"},
    {"n_head", "heads"},
    {"n_heads", "heads"},
    {"num_heads", "heads"},
    {"num_attention_heads", "heads"},
    {"nhead", "heads"},
    {"n_embd", "dim"},
    {"d_model", "dim"},
    {"embed_dim", "dim"},
    {"hidden_size", "dim"},
    {"model_dimensions", "dim"},
    {"n_inner", "ffn"},
    {"d_ff", "ffn"},
    {"dim_feedforward", "ffn"},
    {"feed_forward_dimensions", "ffn"},
    {"intermediate_size", "ffn"},
    {"block_size", "length"},
    {"context_length", "length"},
    {"max_length", "length"},
    {"max_position_embeddings", "length"},
    {"max_seq_length", "length"},
    {"n_positions", "length"},
    {"seq_len", "length"},
    {"sequence_length", "length"},
    {"attention_type", "attention"},
    {"feature_map", "feature"},
    {"n_dims", "features"},
    {"num_features", "features"},
    {"tie_word_embeddings", "tie"},
    {"gradient_checkpointing", "recompute"},
    // training
    {"batch_size", "batch"},
    {"per_device_train_batch_size", "batch"},
    {"train_batch_size", "batch"},
    {"gradient_accumulation_steps", "accumulate"},
    {"grad_accum", "accumulate"},
    {"learning_rate", "lr"},
    {"max_lr", "lr"},
    {"learning_rate_decay_frac", "min_lr"},
    {"max_iters", "steps"},
    {"max_steps", "steps"},
    {"num_iterations", "steps"},
    {"lr_decay_iters", "decay_steps"},
    {"lr_decay_steps", "decay_steps"},
    {"num_train_epochs", "steps"},
    {"epochs", "steps"},
    {"warmup_iters", "warmup"},
    {"warmup_steps", "warmup"},
    {"ema_decay", "ema"},
    {"grad_clip", "clip"},
    {"grad_norm_clip", "clip"},
    {"max_grad_norm", "clip"},
    {"optim", "optimizer"},
    {"adam_beta1", "beta1"},
    {"adam_beta2", "beta2"},
    {"eval_interval", "eval_every"},
    {"eval_steps", "eval_every"},
    {"val_loss_every", "eval_every"},
    {"patience", "early_stop"},
    {"early_stopping", "early_stop"},
    {"early_stopping_patience", "early_stop"},
    {"checkpoint_every", "save_every"},
    {"save_interval", "save_every"},
    {"save_steps", "save_every"},
    {"save_total_limit", "keep_last"},
    {"dataset", "data"},
    {"data_dir", "data"},
    {"input_bin", "data"},
    {"train_file", "data"},
    {"out_dir", "out"},
    {"output_dir", "out"},
    {"resume_from_checkpoint", "resume"},
    {"random_seed", "seed"},
    // sampling
    {"max_new_tokens", "tokens"},
    {"num_tokens", "tokens"},
    {"n_tokens", "tokens"},
    {"num_samples", "count"},
    {"num_return_sequences", "count"},
    {"start", "prompt"},
    // the machine
    {"num_threads", "threads"},
    {"precision", "dtype"},
    {"torch_dtype", "dtype"},
};

// "--Top_K" -> "top_k"
std::string plain(std::string word) {
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
}

// Letters that are added, left out, replaced, or swapped with their neighbors.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, above, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  const std::string wanted = plain(word);
  std::string best;
  size_t min = std::max<size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(wanted, plain(candidate));
    if (distance >= min) continue;
    min = distance;
    best = candidate;
  }
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  for (const ForeignName& name : kForeignNames)
    if (plain(word) == name.theirs)
      for (const std::string& candidate : known)
        if (plain(candidate) == name.ours) return fmt::format("; here it is '{}'", candidate);
  if (deleted_settings().has(plain(word)))
    return "; earlier versions had it as a setting: leave it out";
  const std::string close = nearest(word, known);
  return close.empty() ? "" : fmt::format("; the nearest is '{}'", close);
}

}  // namespace linea
