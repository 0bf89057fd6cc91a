// The linear attentions that language models use now: linear attention (linear.cpp) with settings of
// their own names. Published blocks convolve q, k and v after their projection; here --layer-convolution
// does before it.
#include <algorithm>

#include "nn/attention/builtin.h"

namespace linea {
namespace {

struct LinearAlias {
  std::string name, summary, source;
  Settings fixed;
  std::vector<std::string> free;  // settings of `linear` that it leaves open
  std::vector<Settings> variants = {{}};
};

const std::vector<LinearAlias>& aliases() {
  static const std::vector<LinearAlias> all = {
      {"gdn",
       "Gated DeltaNet, S_t = a_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T",
       "Yang, Kautz, Hatamizadeh 2025",
       {{"feature", "silu"}, {"rule", "gated-delta"}, {"decay", "head"}, {"key_norm", "unit"}},
       {"beta_range"},
       {{}, {{"beta_range", int64_t{2}}}}},
      {"gla",
       "gated linear attention, S_t = Diag(a_t) S_{t-1} + k_t v_t^T",
       "Yang 2024",
       {{"feature", "identity"}, {"rule", "decay"}, {"decay", "channel"}, {"key_norm", "none"}},
       {"gate_rank"}},
      {"kda",
       "Kimi delta attention, S_t = (I - beta_t k_t k_t^T) Diag(a_t) S_{t-1} + beta_t k_t v_t^T",
       "Kimi team 2025",
       {{"feature", "silu"}, {"rule", "gated-delta"}, {"decay", "channel"}, {"key_norm", "unit"}},
       {"beta_range", "gate_rank"}},
      {"retnet",
       "retention, S_t = (1 - 2^(-5-h)) S_{t-1} + k_t v_t^T of head h = 0, 1, ...",
       "Sun 2023",
       {{"feature", "identity"}, {"rule", "decay"}, {"decay", "fixed"}, {"key_norm", "none"}},
       {}},
      {"ssd",
       "Mamba-2's state space duality, S_t = a_t S_{t-1} + w_t k_t v_t^T",
       "Dao, Gu 2024",
       {{"feature", "silu"}, {"rule", "decay"}, {"decay", "head"}, {"key_norm", "none"}},
       {}}};
  return all;
}

AttentionEntry entry_of(const LinearAlias& alias) {
  const AttentionEntry linear = linear_attention_entry();
  AttentionEntry entry;
  entry.name = alias.name;
  entry.summary = alias.summary + ": linear";
  entry.source = alias.source;
  entry.variants = alias.variants;
  entry.cpu_only = true;
  for (const Setting& setting : linear.settings) {
    if (alias.fixed.has(setting.key))
      entry.summary +=
          fmt::format(" --{} {}", flag_name(setting.key), to_string(alias.fixed.at(setting.key)));
    if (std::find(alias.free.begin(), alias.free.end(), setting.key) == alias.free.end()) continue;
    entry.settings.push_back(setting);
    entry.settings.back().only_with = {};
  }
  entry.make = [linear, fixed = alias.fixed](const AttentionOptions& options) {
    AttentionOptions all = options;
    for (const auto& [key, value] : fixed) all.settings[key] = value;
    all.settings = complete(linear.settings, all.settings, "attention " + options.name);
    return linear.make(all);
  };
  return entry;
}

}  // namespace

std::vector<AttentionEntry> linear_aliases() {
  std::vector<AttentionEntry> entries;
  for (const LinearAlias& alias : aliases()) entries.push_back(entry_of(alias));
  return entries;
}

}  // namespace linea
