// Decides which updates of a training run are skipped: always one whose loss or gradient is not
// finite; with a spike guard, also one whose loss or gradient norm is far above its running mean.
#pragma once

#include <cstdint>

namespace linea {

constexpr int64_t kMaxConsecutiveNonfinite = 5;

// The part of the state that a checkpoint saves.
struct GuardState {
  int64_t skipped = 0;  // updates since the run began
  int64_t consecutive_nonfinite = 0;
  int64_t consecutive_spikes = 0;
  int64_t mean_count = 0;  // updates that entered the running means
  double mean_loss = 0, mean_norm = 0;
};

class UpdateGuard {
 public:
  // `spike`: the multiple of the mean loss or norm that counts as a spike; 0: no limit.
  explicit UpdateGuard(double spike) : spike_(spike) {}

  // Upper limits of the loss and the gradient norm; 0: any finite number. After several spikes in a
  // row the next one passes: the level has changed.
  double loss_limit() const { return is_active() ? spike_ * state_.mean_loss : 0; }
  double norm_limit() const { return is_active() ? spike_ * state_.mean_norm : 0; }

  void record_update(double loss, double norm);
  // True where too many updates in a row were not finite.
  bool record_skip(bool finite);

  const GuardState& state() const { return state_; }
  void restore(const GuardState& state) { state_ = state; }

 private:
  bool is_active() const;

  double spike_;
  GuardState state_;
};

}  // namespace linea
