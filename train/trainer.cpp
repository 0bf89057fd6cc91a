#include "train/trainer.h"

#include <cmath>
#include <set>

#include "data/files.h"
#include "tensor/ops.h"
#include "train/checkpoint.h"
#include "train/format.h"
#include "train/machine.h"
#include "train/samples.h"
#include "train/signals.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kRecordEvery = 10;
constexpr double kSaveSeconds = 600;  // between saves where --save-every is 0
constexpr int64_t kValidationTokens =
    131072;  // looked at while training; the end takes the whole split
constexpr int64_t kLongValidation = 2000000;  // tokens of a split that are left to `linea eval`

}  // namespace

void refuse_held_run(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "config.toml", error))
    fail(ErrorKind::usage,
         "{} holds a run already: go on with --resume {}, or choose another --out", folder.string(),
         folder.string());
}

Trainer::Trainer(const RunConfig& config, const fs::path& folder, bool resume, bool json,
                 ProgressReporter& progress, const std::string& initial)
    : config_(config),
      folder_(folder),
      progress_(progress),
      looks_first_(!initial.empty()),
      guard_(config.spike_guard) {
  check_settings(config_);
  if (!resume) refuse_held_run(folder_);
  max_seconds_ = parse_duration(config_.max_time);
  if (resume) lock_ = std::make_unique<RunLock>(folder_);
  use_machine(config_.threads, config_.device, config_.dtype);
  config_.threads = context().threads;

  task_ = read_task(resume);
  for (const std::string& note : task_->notes()) progress_.note(note);
  vocabulary_ = task_->serialized_vocabulary();
  config_.length = task_->length();
  config_.size = task_->shape().side;
  config_.levels = task_->shape().levels;
  config_.channels = task_->shape().channels;
  model_ = make_model(model_config(config_, task_->shape()));
  optimizer_ = std::make_unique<Optimizer>(optimizer_config(config_), model_->parameters());
  training_step_ = std::make_unique<TrainingStep>(*model_, *optimizer_, *task_, config_);
  fingerprint_ = task_->fingerprint();
  const bool saved_before = resume && !checkpoints_of(folder_).empty();
  if (resume && !saved_before)
    progress_.note(folder_.string() + " was not saved before it ended: it begins anew");
  if (saved_before) {
    const RunState at =
        restore_checkpoint(folder_, *model_, *optimizer_, config_, vocabulary_, fingerprint_,
                           [&](const std::string& line) { progress_.note(line); });
    step_ = saved_ = at.step;
    losses_ = at.losses;
    loss_sum_ = at.loss_sum;
    guard_.restore(at.guard);
    set_bad_checkpoints_aside(folder_, step_);
  }
  if (!initial.empty()) load_initial_weights(initial, *model_, vocabulary_);
  first_step_ = step_;

  const std::string settings = to_toml(config_);
  if (!resume)
    lock_ = std::make_unique<RunLock>(
        folder_);  // no folder before all that can be refused was looked at
  if (!resume) refuse_held_run(folder_);
  remove_drafts(folder_);
  make_folders(folder_ / "checkpoints");
  make_folders(folder_ / "samples");
  write_file_atomically(folder_ / "config.toml", settings);
  metrics_ = std::make_unique<Metrics>(folder_ / "metrics.jsonl", step_, json);
  if (config_.tensorboard)
    metrics_->add_events(
        std::make_unique<EventFile>(folder_ / "tensorboard", resume ? step_ : -1,
                                    [this](const std::string& line) { progress_.note(line); }));
  progress_.note(
      fmt::format("{} on {}: {} parameters, {} tokens, length {}, {} threads; run in {}{}",
                  label_of(model_->config().attention), config_.task,
                  format_count(static_cast<double>(count_elements(model_->parameters()))),
                  task_->vocab_size(), task_->length(), config_.threads, folder_.string(),
                  resume ? fmt::format(", from step {}", step_) : ""));
}

// Of a run that goes on, data that cannot be read may have moved.
std::unique_ptr<Task> Trainer::read_task(bool resume) const try {
  return make_task(task_options(config_, ""));
} catch (const Error& error) {
  if (!resume || error.kind() != ErrorKind::input) throw;
  fail(ErrorKind::input, "{}; where the data moved, add --data PATH", error.what());
}

int Trainer::run() {
  watch_signals();
  reset_memory_peak();
  try {
    if (looks_first_) look_at_validation(true);
    if (step_ > 0) {
      prune_checkpoints(folder_, step_,
                        keep_rule());  // the end of the program may have come before it
      make_up_for_a_stop();
    }
    while (step_ < config_.steps) {
      if (!stop_reason().empty()) return stop();
      const double rate =
          learning_rate_at(step_, config_.steps, config_.warmup, config_.lr, config_.min_lr);
      const StepResult result = update(rate);
      ++step_;
      record_step(rate, result, due(config_.save_every));
      // At once: what else is due after this step is done by the run that goes on.
      if (step_ < config_.steps && !stop_reason().empty()) return stop();
      if (due(config_.save_every) || time_to_save()) try_to_save();
      if (due(config_.eval_every) && look_at_validation(step_ == config_.steps) && saved_ != step_)
        try_to_save();
      if (due(config_.sample_every)) write_samples();
    }
  } catch (const Interrupted&) {
    return stop();
  }
  if (saved_ != step_) save();
  metrics_->flush();
  if (!metrics_->problem().empty()) fail(ErrorKind::write, "{}", metrics_->problem());
  progress_.note(fmt::format("done: {} steps in {}; run in {}", step_ - first_step_,
                             format_duration(watch_.seconds()), folder_.string()));
  return 0;
}

std::string Trainer::stop_reason() const {
  const std::string signal = stop_signal();
  if (!signal.empty()) return signal;
  return max_seconds_ > 0 && watch_.seconds() >= max_seconds_ ? "--max-time " + config_.max_time
                                                              : "";
}

void Trainer::check_for_stop() const {
  if (!stop_reason().empty()) throw Interrupted();
}

bool Trainer::time_to_save() const {
  return config_.save_every == 0 && watch_.seconds() - tried_to_save_at_ >= kSaveSeconds;
}

int Trainer::stop() {
  if (saved_ != step_) save();
  progress_.note(
      fmt::format("stopped after step {} and saved ({}); go on with: linea train --resume {}",
                  step_, stop_reason(), folder_.string()));
  return kExitStopped;
}

Var Trainer::forward_loss(int64_t micro_step) const {
  return micro_batch_loss(*model_, *task_, config_, micro_step);
}

StepResult Trainer::update(double learning_rate) {
  model_->before_step(step_, config_.steps);
  const bool recorded = training_step_->captures();
  const StepResult result =
      training_step_->run(step_, learning_rate, {guard_.loss_limit(), guard_.norm_limit()},
                          [&](const StepResult& skipped) { report_skip(skipped); });
  if (recorded && !training_step_->captures())
    progress_.note(fmt::format("steps are done launch by launch, which is slower: {}",
                               training_step_->not_captured_reason()));
  if (result.made) guard_.made(result.loss, result.gradient_norm);
  return result;
}

// The batch is passed over, the optimizer stays where it is; the record gets a line of what
// happened.
void Trainer::report_skip(const StepResult& result) {
  const auto shown = [](double x) { return std::isnan(x) ? std::abs(x) : x; };  // nan, not -nan
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  const bool too_many = guard_.skipped(finite);
  const std::string first = finite ? "a spike" : first_nonfinite(result);
  std::vector<std::pair<std::string, double>> values = {{"loss", result.loss}};
  if (result.gradient_norm != 0) values.emplace_back("grad_norm", result.gradient_norm);
  values.emplace_back("seed", static_cast<double>(config_.seed));
  values.emplace_back("skipped", static_cast<double>(guard_.state().skipped));
  metrics_->record(step_ + 1, values,
                   {{"incident", finite ? "spike" : "not finite"}, {"first", first}});
  const std::string what = std::isfinite(result.loss) && result.gradient_norm != 0
                               ? fmt::format("the loss is {} and the gradient's norm {}",
                                             result.loss, shown(result.gradient_norm))
                               : fmt::format("the loss is {}", shown(result.loss));
  if (too_many)
    fail(ErrorKind::numeric, "step {}: {}: {}; {} updates in a row could not be made; {}",
         step_ + 1, what, first, kMaxBadInARow, hint());
  progress_.note(fmt::format("step {}: {}: {}; the update is skipped ({} so far)", step_ + 1, what,
                             first, guard_.state().skipped));
}

// After numbers that are none.
std::string Trainer::hint() const {
  return fmt::format(
      "{}: lower --lr ({}) or --clip ({})",
      saved_ < 0 ? "nothing was saved yet" : fmt::format("step {} is saved and good", saved_),
      config_.lr, config_.clip);
}

// What went bad first: a parameter, else the first op of a repeated forward pass, else a gradient.
std::string Trainer::first_nonfinite(const StepResult& result) const {
  for (const Parameter& parameter : model_->parameters())
    if (const int64_t bad = ops::count_nonfinite(parameter.var.value()))
      return fmt::format("{} values of the parameter {} are not finite", bad, parameter.name);
  if (!std::isfinite(result.loss)) {
    try {
      const NoGrad no_grad;
      const DetectNonfinite detect;
      for (int64_t micro = 0; micro < config_.accumulate; ++micro)
        forward_loss(step_ * config_.accumulate + micro);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::numeric) return error.what();
      if (error.kind() != ErrorKind::memory) throw;
    }
  }
  bool looked = false;
  for (const Parameter& parameter : model_->parameters()) {
    if (!parameter.var.grad().defined()) continue;
    looked = true;
    if (const int64_t bad = ops::count_nonfinite(parameter.var.grad()))
      return fmt::format("{} values of the gradient of {} are not finite", bad, parameter.name);
  }
  return looked ? "the sum of the gradient's squares overflows"
                : "not known: there are no gradients to look at";
}

void Trainer::record_step(double learning_rate, const StepResult& result, bool last) {
  if (result.made) {
    loss_sum_ += result.loss;
    ++losses_;
  }
  if (losses_ == 0) return;  // nothing but skipped updates since the last record
  const double loss = loss_sum_ / static_cast<double>(losses_);
  const double elapsed = watch_.seconds();
  const double steps = static_cast<double>(step_ - first_step_);
  const double tokens_per_s =
      steps * static_cast<double>(config_.batch * config_.accumulate * task_->length()) / elapsed;
  const double peak = static_cast<double>(memory_use().peak);
  if (progress_.due(last)) {
    const double left = elapsed / steps * static_cast<double>(config_.steps - step_);
    progress_.show(
        fmt::format("step {}/{}  loss {:.4f}  {:.4f} {}  lr {:.2e}  |g| {:.2f}  {} tokens/s  {}  "
                    "{} elapsed, {} left",
                    step_, config_.steps, loss, bits_of(loss), bits_name(task_->shape()),
                    learning_rate, result.gradient_norm, format_count(tokens_per_s),
                    format_bytes(peak), format_duration(elapsed), format_duration(left)));
  }
  if (!last && step_ % kRecordEvery != 0) return;
  std::vector<std::pair<std::string, double>> record = {
      {"loss", loss},
      {"bits", bits_of(loss)},
      {"lr", learning_rate},
      {"grad_norm", result.made ? result.gradient_norm : std::nan("")},
      {"tokens_per_s", tokens_per_s},
      {"elapsed_s", elapsed},
      {"peak_bytes", peak}};
  if (guard_.state().skipped > 0)
    record.emplace_back("skipped", static_cast<double>(guard_.state().skipped));
  if (result.made)
    for (const auto& [name, value] : model_->statistics()) record.emplace_back(name, value);
  metrics_->record(step_, record);
  check_metrics();
  loss_sum_ = 0;
  losses_ = 0;
}

// Whether it is the best look so far.
bool Trainer::look_at_validation(bool last) {
  const int64_t all = task_->rows(Split::val) * task_->length();
  const bool whole = last && all <= kLongValidation;
  const int64_t rows = whole ? 0 : std::max<int64_t>(1, kValidationTokens / task_->length());
  const Score score = evaluate(*model_, *task_, Split::val, config_.batch, rows,
                               [&](int64_t, int64_t) { check_for_stop(); });
  metrics_->record(step_, {{"val_loss", score.loss},
                           {"val_bits", score.bits},
                           {"val_accuracy", score.accuracy},
                           {"val_tokens", static_cast<double>(score.tokens)},
                           {"elapsed_s", watch_.seconds()}});
  progress_.note(
      fmt::format("step {}: validation loss {:.4f}, {:.4f} bits, accuracy {:.4f} over {} tokens{}",
                  step_, score.loss, score.bits, score.accuracy, score.tokens,
                  whole ? "" : " (a part; linea eval takes all)"));
  return best_step([](int64_t) { return true; }) == step_;
}

// The step of the lowest validation loss, the last of equal ones, of those that `counts`; -1 where
// there is none. A look over the whole split does not compete with those over a part.
int64_t Trainer::best_step(const std::function<bool(int64_t)>& counts) const {
  int64_t tokens = INT64_MAX, best = -1;
  for (const auto& [step, look] : metrics_->looks()) tokens = std::min(tokens, look.tokens);
  double lowest = 0;
  for (const auto& [step, look] : metrics_->looks()) {
    if (look.tokens != tokens || !std::isfinite(look.loss) || !counts(step)) continue;
    if (best >= 0 && look.loss > lowest) continue;
    lowest = look.loss;
    best = step;
  }
  return best;
}

// Weights that the next step finds spoilt must not push out a checkpoint that is good.
void Trainer::save() {
  tried_to_save_at_ = watch_.seconds();
  {
    const NoGrad no_grad;
    const double loss = forward_loss(step_ * config_.accumulate).value().item();
    if (!std::isfinite(loss))
      fail(ErrorKind::numeric, "after step {} the loss is {}: {}; it is not saved, {}", step_,
           std::abs(loss), first_nonfinite({loss, 0, false}), hint());
  }
  metrics_->flush();
  save_checkpoint(folder_, {step_, losses_, loss_sum_, guard_.state(), fingerprint_}, config_,
                  vocabulary_, *model_, *optimizer_, keep_rule());
  saved_ = step_;
}

// Beside the checkpoint of this step, which is the newest and stays, whatever a look at it says.
KeepRule Trainer::keep_rule() const {
  std::set<int64_t> there;
  for (const CheckpointFolder& checkpoint : checkpoints_of(folder_))
    if (checkpoint.step < step_) there.insert(checkpoint.step);
  return {config_.keep_last, config_.keep_every,
          best_step([&](int64_t step) { return there.count(step) != 0; })};
}

// A disk that takes nothing does not end the run, nor do weights that are spoilt before the updates
// show it: the next save tries again, and what is due at the end must succeed.
void Trainer::try_to_save() try { save(); } catch (const Error& error) {
  if (error.kind() != ErrorKind::write &&
      (error.kind() != ErrorKind::numeric || step_ == config_.steps))
    throw;
  progress_.note(fmt::format("step {} is not saved, training goes on: {}", step_, error.what()));
}

// Says once that lines of the record wait for room on the disk.
void Trainer::check_metrics() {
  const bool wait = !metrics_->problem().empty();
  if (wait && !metrics_wait_)
    progress_.note(metrics_->problem() +
                   "; training goes on, and its lines are kept until there is room");
  metrics_wait_ = wait;
}

// Without the ending, which says what it is.
std::string Trainer::sample_base() const {
  return (folder_ / "samples" / fmt::format("step-{:08}", step_)).string();
}

void Trainer::write_samples() try {
  const SamplingOptions options{1.0, false, static_cast<uint64_t>(config_.seed)};
  const std::string base = sample_base();
  if (task_->shape().side > 0) {
    sample_images(*model_, task_->shape(), options, {16, -1}, base + ".png", 0,
                  [&](int64_t done, int64_t all) {
                    check_for_stop();
                    if (progress_.due(done == all))
                      progress_.show(fmt::format("samples: {} of {} tokens", done, all));
                  });
  } else if (!vocabulary_.empty()) {
    std::string text;
    sample_text(*model_, vocabulary_, options, "", 500, [&](const std::string& piece) {
      check_for_stop();
      text += piece;
    });
    write_file_atomically(base + ".txt", text + "\n");
  }
  metrics_->record_sample(step_, base);
} catch (const Error& error) {
  if (error.kind() != ErrorKind::write) throw;
  progress_.note(fmt::format("no sample of step {}: {}; training goes on", step_, error.what()));
}

// What was due after the step that this run goes on from, but for its checkpoint: the end of the
// program may have come before it.
void Trainer::make_up_for_a_stop() {
  if (due(config_.eval_every) && metrics_->looks().count(step_) == 0)
    look_at_validation(step_ == config_.steps);
  std::error_code error;
  if (due(config_.sample_every) && !fs::exists(sample_base() + ".png", error) &&
      !fs::exists(sample_base() + ".txt", error))
    write_samples();
}

}  // namespace linea
