// Which updates of a training run are made. One whose loss or gradient is not finite never is; with
// a guard against spikes, nor is one whose loss or gradient's norm is far above what has been
// usual.
#pragma once

#include <cstdint>
#include <string>

namespace linea {

constexpr int64_t kMaxBadInARow = 5;

// What resuming needs of it.
struct GuardState {
  int64_t skipped = 0;       // updates, since the run began
  int64_t bad_in_a_row = 0;  // not finite
  int64_t spikes_in_a_row = 0;
  int64_t usual_of = 0;  // updates that the means below are of
  double usual_loss = 0, usual_norm = 0;
};

class UpdateGuard {
 public:
  // `spike`: how many times the usual loss or norm is too much; 0: nothing is.
  explicit UpdateGuard(double spike) : spike_(spike) {}

  // What a loss or a gradient's norm may be; 0: any finite number. After some spikes in a row the
  // next one is let through: it is what is usual now.
  double loss_limit() const { return watches() ? spike_ * state_.usual_loss : 0; }
  double norm_limit() const { return watches() ? spike_ * state_.usual_norm : 0; }

  void made(double loss, double norm);
  // An update was skipped. True where it was one too many of those that are not finite.
  bool skipped(bool finite);

  const GuardState& state() const { return state_; }
  void restore(const GuardState& state) { state_ = state; }

 private:
  bool watches() const;

  double spike_;
  GuardState state_;
};

}  // namespace linea
