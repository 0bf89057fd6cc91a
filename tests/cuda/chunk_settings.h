// What the sum rule's kernels are tried with.
#pragma once

#include "tests/cuda/chunk_problem.h"

namespace linea::cuda_tests {

inline std::string describe(const ChunkSetting& s) {
  return std::string(s.kind == FeatureKind::logs ? "logs" : "values") + " feature " +
         std::to_string(static_cast<int>(s.feature)) + (s.weights ? " weights" : "") +
         (s.decays ? " decays" : "") + (s.causal ? " causal" : "") + (s.padded ? " padded" : "") +
         (s.hints ? " hints" : "") + (s.by_head ? " by head" : "") + " N " + std::to_string(s.N) +
         " F " + std::to_string(s.F) + " M " + std::to_string(s.M) + " segment " +
         std::to_string(s.segment) + " stddev " + std::to_string(s.stddev) + " lost " +
         std::to_string(s.lost) + " of weights " + std::to_string(s.weight_std) + " blocks " +
         std::to_string(s.blocks) + " gap " + std::to_string(s.gap);
}

// bf16 is for values without weights and decays.
inline bool is_plain(const ChunkSetting& s) {
  return s.kind == FeatureKind::values && !s.weights && !s.decays;
}
template <typename Body>
void expect_parity_of(const ChunkSetting& s, const Body& body, const Bounds& bounds = {}) {
  if (is_plain(s))
    expect_parity(body, bounds);
  else
    expect_real_parity(body, bounds);
}

// Kinds of features, weights, decays, padding, causal or not, in one segment and in several.
inline std::vector<ChunkSetting> every_kind() {
  std::vector<ChunkSetting> all;
  for (const KernelFeature feature :
       {KernelFeature::given, KernelFeature::elu, KernelFeature::relu})
    for (const FeatureKind kind : {FeatureKind::values, FeatureKind::logs})
      for (const bool weights : {false, true})
        for (const bool decays : {false, true})
          for (const bool causal : {false, true})
            for (const bool padded : {false, true}) {
              if (feature != KernelFeature::given &&
                  (kind == FeatureKind::logs || (weights && padded)))
                continue;
              if (decays && !causal) continue;
              ChunkSetting s{kind, feature, weights, decays, causal, padded};
              s.N = 150;
              s.F = 12;
              s.M = 9;
              all.push_back(s);
              s.segment = 90;
              s.hints = s.by_head = false;
              all.push_back(s);
            }
  return all;
}

inline std::vector<ChunkSetting> every_size() {
  std::vector<ChunkSetting> all;
  for (const int rule : {0, 1, 2}) {
    ChunkSetting s;
    s.kind = rule == 2 ? FeatureKind::logs : FeatureKind::values;
    s.weights = s.decays = rule == 1;
    for (const int64_t N : {1, 63, 65, 257}) {
      s.N = N;
      s.padded = N == 257;
      s.F = 5;
      s.M = 3;
      all.push_back(s);
    }
    s.N = 130;
    for (const int64_t F : {37, 64, 130})
      for (const int64_t M : {64, 70}) {
        s.F = F;
        s.M = M;
        s.segment = F == 64 ? 64 : 1000;
        all.push_back(s);
      }
  }
  return all;
}

// Logs so far apart that their exponentials are 0 or infinite, lost ones, extreme weights.
inline std::vector<ChunkSetting> far_logs() {
  std::vector<ChunkSetting> all;
  for (const double stddev : {20.0, 200.0})
    for (const double lost : {0.0, 0.5, 0.9, 1.0})
      for (const bool gated : {false, true}) {
        ChunkSetting s{FeatureKind::logs};
        s.N = 150;
        s.F = 12;
        s.M = 9;
        s.segment = 70;
        s.stddev = stddev;
        s.lost = lost;
        s.weights = s.decays = gated;
        s.weight_std = gated ? 50.0 : 1.0;
        all.push_back(s);
      }
  for (const double stddev : {30.0, 300.0}) {
    ChunkSetting s;
    s.weights = s.decays = true;
    s.N = 150;
    s.segment = 70;
    s.weight_std = stddev;
    all.push_back(s);
  }
  return all;
}

// Logs of some thousands have an error of 1e-4 in float; more in what they are the logs of.
inline const Bounds kFarBounds{5e-3, 1e-10};

}  // namespace linea::cuda_tests
