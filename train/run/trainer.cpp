#include "train/run/trainer.h"

#include <cmath>
#include <set>

#include "data/files.h"
#include "train/format.h"
#include "train/machine.h"
#include "train/run/checkpoint.h"
#include "train/run/early_stop.h"
#include "train/run/nonfinite.h"
#include "train/run/run_task.h"
#include "train/run/signals.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
}  // namespace

void refuse_existing_run(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "config.toml", error))
    fail(ErrorKind::usage,
         "{} already holds a run: continue it with --resume {}, or choose another --out",
         folder.string(), shell_quote(folder.string()));
}

Trainer::Trainer(const RunConfig& config, const fs::path& folder, bool resume, bool json,
                 ProgressReporter& progress, const std::string& initial, bool check_memory)
    : config_(config),
      folder_(folder),
      progress_(progress),
      validates_first_(!initial.empty()),
      guard_(config.spike_guard) {
  ignore_closed_pipes();  // the reader of the progress may exit
  ranks_.agree("the settings", [&] {
    check_settings(config_);
    max_seconds_ = parse_duration(config_.max_time);
    ranks_.set_timeout(parse_duration(config_.comm_timeout, "`comm_timeout`"));
    cut_of(&ranks_, config_.sequence_ranks);  // refuses numbers that do not fit
  });
  refuse_other_settings(ranks_, config_);
  ranks_.agree("the run's folder", [&] {
    if (main_ && !resume) refuse_existing_run(folder_);
    if (main_ && resume) lock_ = std::make_unique<RunLock>(folder_);
  });
  build(resume, initial, check_memory);
  if (resume) restore();
  if (!initial.empty()) {
    ranks_.agree("the weights of the other run", [&] {
      if (main_)
        load_initial_weights(initial, *model_, task_->shape(), vocabulary_,
                             [&](const std::string& line) { progress_.note(line); });
    });
    if (average_ && main_) average_->restart();
  }
  share_state(ranks_, *model_, *optimizer_, average_.get());
  first_step_ = step_;
  watch_signals();  // before a run can be seen, which may be stopped then
  ranks_.agree("the run's folder", [&] {
    if (main_) open_folder(resume, json);
  });
  stopped_early_ = decide("the early stop", [&] { return stopped_early_; });
}

void Trainer::build(bool resume, const std::string& initial, bool check_memory) {
  // One rank a GPU: without a number, that of the rank on its host.
  const bool own_device = config_.device == "cuda" && !ranks_.alone();
  use_machine(config_.threads,
              own_device ? fmt::format("cuda:{}", ranks_.host().local) : config_.device,
              config_.dtype);
  config_.threads = context().threads;
  if (const std::string note = slow_bf16_note(); !note.empty()) progress_.note(note);
  if (resume || !initial.empty()) {
    task_ = resume ? resumed_task(config_, folder_) : initial_task(config_, initial);
  } else {
    ranks_.agree("the data", [&] { task_ = make_task(task_options(config_, "")); });
  }
  for (const std::string& note : task_->notes()) progress_.note(note);
  vocabulary_ = task_->serialized_vocabulary();
  fingerprint_ = task_->fingerprint();
  refuse_other_data(ranks_, fingerprint_, vocabulary_);
  const bool images = task_->shape().side > 0;
  require(config_.judge_samples == 0 ||
              (task_->shape().answer_tokens == 0 && (images || !vocabulary_.empty())),
          "`judge_samples` needs images or text: the task {} has right answers", config_.task);
  require(config_.judge_samples != 1 || !images,
          "`judge_samples` is 1; two images at least can be compared");
  ranks_.agree("the memory", [&] {
    if (check_memory) check_fits();
    model_ = make_model(model_config(config_, task_->shape()));
    optimizer_ = std::make_unique<Optimizer>(optimizer_config(config_), model_->parameters());
    if (config_.ema > 0) average_ = std::make_unique<WeightAverage>(*model_, config_.ema);
    training_step_ =
        std::make_unique<TrainingStep>(*model_, *optimizer_, *task_, config_, true, &ranks_);
  });
  same_weights_ = std::make_unique<SameWeights>(ranks_, *model_, *optimizer_);
  training_step_->average_in(average_.get());
  training_step_->note_by([this] { return notes(); });
  training_step_->interrupt_by([this] {
    agree_to_stop();
    if (!stop_reason().empty()) throw Interrupted();
  });
}

void Trainer::restore_from_folder() {
  if (list_checkpoints(folder_).empty())
    return progress_.note(folder_.string() + " has no checkpoint: the run starts over");
  const auto [state, before] = restore_checkpoint(
      folder_, *model_, *optimizer_, config_, vocabulary_, fingerprint_,
      [&](const std::string& line) { progress_.note(line); }, average_.get());
  for (const SettingChange& change : setting_changes(before, config_))
    setting_changes_ += (setting_changes_.empty() ? "" : "; ") + change.text;
  step_ = saved_step_ = state.step;
  loss_count_ = state.loss_count;
  loss_sum_ = state.loss_sum;
  guard_.restore(state.guard);
  set_bad_checkpoints_aside(folder_, step_);
}

// Creates the folder of a new run last, after everything that can be refused. The settings of a
// resumed one are written once a step was made with them.
void Trainer::open_folder(bool resume, bool json) {
  if (!resume) {
    lock_ = std::make_unique<RunLock>(folder_);
    refuse_existing_run(folder_);
  }
  remove_drafts(folder_);
  make_folders(folder_ / "checkpoints");
  make_folders(folder_ / "samples");
  if (!resume) write_settings();
  metrics_ = std::make_unique<Metrics>(folder_ / "metrics.jsonl", step_, json);
  seconds_before_ = metrics_->elapsed_seconds();
  stopped_early_ = stops_early(metrics_->validations(), config_.early_stop);
  if (config_.tensorboard)
    metrics_->add_events(
        std::make_unique<EventFile>(folder_ / "tensorboard", resume ? step_ : -1,
                                    [this](const std::string& line) { progress_.note(line); }));
  progress_.note(fmt::format(
      "{} on {}: {} parameters, {} tokens, length {}, {}, {}; run in {}{}",
      label_of(model_->config().attentions), config_.task,
      format_count(static_cast<double>(count_elements(model_->parameters()))), task_->vocab_size(),
      task_->length(), config_.dtype, plural(config_.threads, "thread"), folder_.string(),
      resume ? fmt::format(", from step {}", step_) : ""));
  for (const std::string& line : layers_by_attention(config_)) progress_.note(line);
  if (!model_->knows_order())
    progress_.note(
        "--positions none: only the causal mask tells the order of the tokens; so would "
        "--layer-convolution 1d, and a rule that forgets, such as --attention gdn");
  const int64_t end = std::min(schedule_end(config_), config_.steps);
  if (config_.warmup >= end && step_ < config_.steps)
    progress_.note(fmt::format(
        "--warmup {} is not below --{} {}: the learning rate never reaches --lr {}", config_.warmup,
        end == config_.steps ? "steps" : "decay-steps", end, config_.lr));
}

void Trainer::write_settings() {
  settings_written_ = true;
  write_file_atomically(folder_ / "config.toml", to_toml(config_));
}

int Trainer::run() try {
  device_allocator().reset_peak();
  agree_to_stop();
  try {
    if (validates_first_ && validate(true)) try_to_save();  // the start may stay the best
    if (step_ > 0) catch_up();
    while (step_ < config_.steps && !stopped_early_) {
      if (!stop_reason().empty()) return stop();
      step();
      // Before the work that is due after this step: the resumed run does it.
      if (!at_end() && !stop_reason().empty()) return stop();
      if (is_due(config_.save_every) || is_time_to_save()) try_to_save();
      if (is_due(config_.eval_every) && validate(at_end()) && saved_step_ != step_) try_to_save();
      if (is_due(config_.sample_every)) write_samples();
      report(RunStatus::running);
    }
  } catch (const Interrupted&) {
    return stop();
  }
  if (saved_step_ != step_) save();
  on_main("the end of the record", [&] {
    metrics_->flush();
    if (!metrics_->problem().empty()) fail(ErrorKind::write, "{}", metrics_->problem());
    say_done();
  });
  report(RunStatus::finished);
  return 0;
} catch (const Error&) {
  report(RunStatus::failed);
  throw;
}

void Trainer::say_done() {
  if (stopped_early_) {
    std::set<int64_t> saved;
    for (const CheckpointFolder& checkpoint : list_checkpoints(folder_))
      saved.insert(checkpoint.step);
    const int64_t best =
        best_step(metrics_->validations(), [&](int64_t step) { return saved.count(step) != 0; });
    progress_.note(fmt::format(
        "stopped early after step {}: val_loss did not improve in {} in a row (--early-stop {}){}",
        step_, plural(validations_without_improvement(metrics_->validations()), "evaluation"),
        config_.early_stop,
        best < 0 ? "" : fmt::format("; the best checkpoint is that of step {} (--best)", best)));
  }
  if (step_ == first_step_) {
    progress_.note(fmt::format(
        "done: 0 steps: {} is at {} step {}; give {} to continue", folder_.string(),
        step_ <= config_.steps ? "its last" : "a later", step_,
        stopped_early_ && step_ < config_.steps ? "a larger --early-stop, or 0," : "--steps M"));
  } else {
    progress_.note(fmt::format("done: {} in {}; run in {}", plural(step_ - first_step_, "step"),
                               format_duration(watch_.seconds()), folder_.string()));
  }
}

void Trainer::step() {
  constexpr int64_t kCompareEvery = 1000;
  if (!ranks_.alone()) ranks_.set_place(fmt::format("step {}", step_ + 1));
  const double rate = learning_rate_at(step_, config_);
  model_->before_step(step_, schedule_end(config_));
  const bool captured = training_step_->captures();
  const StepResult result =
      training_step_->run(step_, rate, {guard_.loss_limit(), guard_.norm_limit()},
                          [&](const StepResult& skipped) { record_skip(skipped); });
  if (captured && !training_step_->captures())
    progress_.note(fmt::format("steps run without graph capture, which is slower: {}",
                               training_step_->not_captured_reason()));
  if (result.updated) guard_.record_update(result.loss, result.gradient_norm);
  ++step_;
  read_notes();
  if (step_ % kCompareEvery == 0) same_weights_->check(step_);
  if (main_ && !settings_written_) record_settings();
  record_step(rate, result);
}

// Work that was due after the step of the resumed checkpoint and that the program may not have
// reached.
void Trainer::catch_up() {
  if (main_) prune_checkpoints(folder_, step_, retention());
  if (is_due(config_.eval_every) &&
      decide("what is due", [&] { return metrics_->validations().count(step_) == 0; }))
    validate(at_end());
  std::error_code error;
  if (is_due(config_.sample_every) && decide("what is due", [&] {
        return !fs::exists(sample_base() + ".png", error) &&
               !fs::exists(sample_base() + ".txt", error);
      }))
    write_samples();
}

// Bad weights, which only the next step would detect, must not replace a good checkpoint.
void Trainer::save() {
  last_save_try_ = watch_.seconds();
  save_is_due_ = false;
  double loss = training_step_->forward_loss(step_, 0).item();
  for (const double other : ranks_.all_gather(loss, "the check before a save"))
    if (!std::isfinite(other)) loss = other;
  if (!std::isfinite(loss))
    fail(ErrorKind::numeric, "after step {} the loss is {}: {}; it is not saved, {}", step_,
         std::abs(loss), find_nonfinite(*model_, *training_step_, ranks_, step_, loss),
         divergence_hint());
  same_weights_->check(step_);
  on_main("the save", [&] {
    metrics_->flush();
    save_checkpoint(folder_,
                    {step_, loss_count_, loss_sum_, guard_.state(), fingerprint_,
                     average_ ? average_->updates() : 0},
                    config_, vocabulary_, *model_, *optimizer_, retention(),
                    average_ ? &average_->model() : nullptr);
  });
  saved_step_ = step_;
}

// A full disk, or bad weights that no update has shown yet, do not end the run: the next save tries
// again. Only the save at the end must succeed.
void Trainer::try_to_save() try { save(); } catch (const Error& error) {
  if (error.kind() != ErrorKind::write && (error.kind() != ErrorKind::numeric || at_end())) throw;
  progress_.note(fmt::format("step {} is not saved, {}: {}", step_,
                             at_end() ? "the end of the run tries again" : "training continues",
                             error.what()));
}

// The best step counts only among the older checkpoints: the newest one stays in any case.
RetentionRule Trainer::retention() const {
  std::set<int64_t> older;
  for (const CheckpointFolder& checkpoint : list_checkpoints(folder_))
    if (checkpoint.step < step_) older.insert(checkpoint.step);
  const auto best = [&](Weights weights) {
    return best_step(metrics_->validations(weights),
                     [&](int64_t step) { return older.count(step) != 0; });
  };
  return {config_.keep_last, config_.keep_every, best(Weights::last), best(Weights::average)};
}

bool Trainer::is_best(Weights weights) const {
  return best_step(metrics_->validations(weights), [](int64_t) { return true; }) == step_;
}

int Trainer::stop() {
  agree_to_stop();
  if (saved_step_ != step_) save();
  progress_.note(
      fmt::format("stopped after step {} and saved ({}); continue with: linea train --resume {}",
                  step_, stop_reason(), shell_quote(folder_.string())));
  report(RunStatus::stopped);
  return kExitStopped;
}

}  // namespace linea
