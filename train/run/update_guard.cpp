#include "train/run/update_guard.h"

#include <algorithm>

namespace linea {
namespace {

constexpr int64_t kMinUpdates = 50;  // before anything counts as a spike
constexpr int64_t kMeanWindow = 50;  // updates that the running means cover
constexpr int64_t kMaxConsecutiveSpikes = 5;

}  // namespace

bool UpdateGuard::is_active() const {
  return spike_ > 0 && state_.mean_count >= kMinUpdates &&
         state_.consecutive_spikes < kMaxConsecutiveSpikes;
}

// mean = mean + (x - mean) / min(count, window)
void UpdateGuard::record_update(double loss, double norm) {
  state_.consecutive_nonfinite = state_.consecutive_spikes = 0;
  ++state_.mean_count;
  const double weight = 1.0 / static_cast<double>(std::min(state_.mean_count, kMeanWindow));
  state_.mean_loss += (loss - state_.mean_loss) * weight;
  state_.mean_norm += (norm - state_.mean_norm) * weight;
}

bool UpdateGuard::record_skip(bool finite) {
  ++state_.skipped;
  if (finite) {
    ++state_.consecutive_spikes;
    return false;
  }
  return ++state_.consecutive_nonfinite >= kMaxConsecutiveNonfinite;
}

}  // namespace linea
