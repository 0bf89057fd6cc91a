#include "train/update_guard.h"

#include <algorithm>

namespace linea {
namespace {

constexpr int64_t kLearnsFrom = 50;  // updates before anything counts as a spike
constexpr int64_t kMemory = 50;      // updates that the running means look back on
constexpr int64_t kSpikesInARow = 5;

}  // namespace

bool UpdateGuard::watches() const {
  return spike_ > 0 && state_.usual_of >= kLearnsFrom && state_.spikes_in_a_row < kSpikesInARow;
}

// mean = mean + (x - mean) / min(count, memory)
void UpdateGuard::made(double loss, double norm) {
  state_.bad_in_a_row = state_.spikes_in_a_row = 0;
  ++state_.usual_of;
  const double share = 1.0 / static_cast<double>(std::min(state_.usual_of, kMemory));
  state_.usual_loss += (loss - state_.usual_loss) * share;
  state_.usual_norm += (norm - state_.usual_norm) * share;
}

bool UpdateGuard::skipped(bool finite) {
  ++state_.skipped;
  if (finite) {
    ++state_.spikes_in_a_row;
    return false;
  }
  return ++state_.bad_in_a_row >= kMaxBadInARow;
}

}  // namespace linea
