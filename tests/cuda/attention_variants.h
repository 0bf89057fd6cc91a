// The attentions that tests go through on the device.
#pragma once

#include <string>
#include <vector>

#include "nn/attention.h"
#include "tests/cuda/parity.h"

namespace linea::cuda_tests {

// One of each mechanism and of each path through its kernels; all of them with LINEA_LONG_TESTS in
// the environment.
inline std::vector<AttentionOptions> tried_variants() {
  const bool all = long_tests();
  std::vector<AttentionOptions> result;
  for (const AttentionEntry& entry : attentions())
    for (const AttentionOptions& variant : entry.variant_options()) {
      const Settings settings = complete_settings(variant);
      const std::string feature = settings.has("feature") ? settings.text("feature") : "";
      const bool cpu_only =
          entry.cpu_only || (settings.has("key_norm") && (settings.text("key_norm") != "sum" ||
                                                          settings.text("rule") == "decay"));
      if (cpu_only) continue;
      const bool family = entry.name == "linear" || entry.name == "performer";
      const bool chosen = !family || feature == "elu" ||
                          (feature == "exp" && settings.text("rule") == "sum") ||
                          feature == "trig" || feature == "positive";
      if (all || chosen) result.push_back(variant);
    }
  return result;
}

}  // namespace linea::cuda_tests
