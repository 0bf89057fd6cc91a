// Which weights of a checkpoint: those of its step, or their average over the updates (--ema).
#pragma once

#include <string>

#include "base/error.h"

namespace linea {

enum class Weights { last, average };

// The values of --weights.
inline constexpr const char* kLastWeights = "last";
inline constexpr const char* kAverageWeights = "ema";
inline Weights weights_named(const std::string& name) {
  if (name == kLastWeights) return Weights::last;
  require(name == kAverageWeights, "`weights` is '{}'; choose {} or {}", name, kLastWeights,
          kAverageWeights);
  return Weights::average;
}

}  // namespace linea
