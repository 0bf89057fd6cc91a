// A training run by several ranks: what they decide together, and what one does for all.
#include "train/run/signals.h"
#include "train/run/step_memory.h"
#include "train/run/trainer.h"

namespace linea {
namespace {

constexpr double kSaveSeconds = 600;  // between saves with --save-every 0

}  // namespace

// The rows of the rank that has most.
void Trainer::check_fits() const {
  RunConfig own = config_;
  const int64_t W = ranks_.size() / config_.sequence_ranks,
                rows = (config_.batch * config_.accumulate + W - 1) / W;
  own.batch = std::min(config_.batch, rows);
  own.accumulate = (rows + own.batch - 1) / own.batch;
  refuse_what_cannot_fit(own, *task_);
}

// Rank 0 reads; the others get its state and, by share_state, its tensors.
void Trainer::restore() {
  struct {
    int64_t step, saved_step, loss_count;
    double loss_sum;
    GuardState guard;
  } state{};
  ranks_.agree("the checkpoint", [&] {
    if (!main_) return;
    restore_from_folder();
    state = {step_, saved_step_, loss_count_, loss_sum_, guard_.state()};
  });
  ranks_.broadcast(&state, sizeof state, "the state of the run");
  step_ = state.step;
  saved_step_ = state.saved_step;
  loss_count_ = state.loss_count;
  loss_sum_ = state.loss_sum;
  guard_.restore(state.guard);
}

bool Trainer::is_due_by_clock() const {
  return config_.save_every == 0 && watch_.seconds() - last_save_try_ >= kSaveSeconds;
}

std::string Trainer::own_stop_reason() const {
  const std::string signal = stop_signal();
  if (!signal.empty()) return signal;
  return main_ && max_seconds_ > 0 && watch_.seconds() >= max_seconds_
             ? "--max-time " + config_.max_time
             : "";
}

// In work of this rank, between exchanges.
void Trainer::check_for_stop() {
  ranks_.beat();
  if (!own_stop_reason().empty() || !stop_reason().empty()) throw Interrupted();
}

// The reason of the lowest rank that has one becomes that of all.
void Trainer::agree_to_stop() {
  if (ranks_.alone() || !stop_.empty()) return;
  for (const std::string& reason : ranks_.all_gather(own_stop_reason(), "the reasons to stop"))
    if (stop_.empty()) stop_ = reason;
}

// What each rank adds to the messages of a step: how many have which reason to stop, and whether
// rank 0 saves by its clock.
GradientSum::Notes Trainer::notes() const {
  GradientSum::Notes notes{};
  const std::string signal = stop_signal();
  size_t i = 0;
  for (const char* name : kStopSignals) notes.at(i++) = signal == name ? 1 : 0;
  notes.at(i++) = signal.empty() && !own_stop_reason().empty() ? 1 : 0;
  notes.at(i) = main_ && is_due_by_clock() ? 1 : 0;
  return notes;
}

void Trainer::read_notes() {
  if (ranks_.alone()) return;
  const GradientSum::Notes& notes = training_step_->notes();
  size_t i = 0;
  for (const char* name : kStopSignals)
    if (notes.at(i++) > 0 && stop_.empty()) stop_ = name;
  if (notes.at(i++) > 0 && stop_.empty()) stop_ = "--max-time " + config_.max_time;
  save_is_due_ = notes.at(i) > 0;
}

// Rank 0's answer.
bool Trainer::decide(const char* what, const std::function<bool()>& question) {
  return !ranks_.broadcast(main_ && question() ? "1" : "", what).empty();
}

// Runs `work` on rank 0, for which the others wait. Where it is interrupted or fails, all are.
void Trainer::on_main(const char* what, const std::function<void()>& work) {
  if (ranks_.alone()) return work();
  const std::string interrupted = ranks_.from_main(what, [&]() -> std::string {
    try {
      work();
    } catch (const Interrupted&) {
      return "1";
    }
    return "";
  });
  if (!interrupted.empty()) throw Interrupted();
}

}  // namespace linea
