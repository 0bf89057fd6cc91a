#include "train/trainer.h"

#include <cmath>

#include "autograd/ops.h"
#include "data/files.h"
#include "tensor/ops.h"
#include "train/checkpoint.h"
#include "train/samples.h"
#include "train/signals.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kRecordEvery = 10;
constexpr int64_t kValidationTokens = 131072;  // looked at while training; the end takes the whole split
constexpr int64_t kLongValidation = 2000000;  // tokens of a split that are left to `linea eval`

}  // namespace

Trainer::Trainer(const RunConfig& config, const fs::path& folder, bool resume, bool json,
                 const std::string& initial)
    : config_(config), folder_(folder), looks_first_(!initial.empty()) {
  check_settings(config_);
  std::error_code error;
  if (!resume && fs::exists(folder_ / "config.toml", error))
    fail(ErrorKind::usage, "{} holds a run already: go on with --resume {}, or choose another --out",
         folder_.string(), folder_.string());
  if (config_.threads > 0) set_threads(static_cast<int>(config_.threads));
  config_.threads = context().threads;

  task_ = make_task(task_options(config_, ""));
  vocabulary_ = task_->serialised_vocabulary();
  config_.length = task_->length();
  config_.size = task_->shape().side;
  config_.levels = task_->shape().levels;
  config_.channels = task_->shape().channels;
  model_ = std::make_unique<Transformer>(model_config(config_, task_->shape()));
  optimizer_ = std::make_unique<Optimizer>(optimizer_config(config_), model_->parameters());
  if (resume) {
    const RunState at = restore_checkpoint(folder_, *model_, *optimizer_, vocabulary_);
    step_ = at.step;
    losses_ = at.losses;
    loss_sum_ = at.loss_sum;
  }
  if (!initial.empty()) load_initial_weights(initial, *model_, vocabulary_);
  first_step_ = step_;

  const std::string settings = to_toml(config_);
  make_folders((folder_ / "checkpoints").string());
  make_folders((folder_ / "samples").string());
  write_file_atomically((folder_ / "config.toml").string(), settings);
  metrics_ = std::make_unique<Metrics>(folder_ / "metrics.jsonl", step_, json);
  progress_.note(fmt::format(
      "{} on {}: {} parameters, {} symbols, length {}, {} threads; run in {}{}", label_of(model_->config().attention),
      config_.task, count_text(static_cast<double>(count_elements(model_->parameters()))), task_->vocabulary(),
      task_->length(), config_.threads, folder_.string(), resume ? fmt::format(", from step {}", step_) : ""));
}

int Trainer::run() {
  watch_signals();
  reset_cpu_peak();
  if (looks_first_) look_at_validation(true);
  if (step_ > 0) make_up_for_a_stop();
  while (step_ < config_.steps) {
    const double rate = learning_rate_at(step_, config_.steps, config_.warmup, config_.lr, config_.min_lr);
    const StepResult result = update(rate);
    ++step_;
    const bool stopping = stop_asked() && step_ < config_.steps;
    record_step(rate, result, due(config_.save_every));
    if (stopping || due(config_.save_every)) save();
    if (stopping) {  // at once: what else is due after this step is done by the run that goes on
      progress_.note(fmt::format("stopped after step {} and saved; go on with: linea train --resume {}", step_,
                                 folder_.string()));
      return kExitStopped;
    }
    if (due(config_.eval_every)) look_at_validation(step_ == config_.steps);
    if (due(config_.sample_every)) draw_samples();
  }
  progress_.note(fmt::format("done: {} steps in {}; run in {}", step_ - first_step_,
                             duration_text(watch_.seconds()), folder_.string()));
  return 0;
}

// The loss of batch number `micro_step`, divided by the batches of a step.
Var Trainer::forward_loss(int64_t micro_step, Var* auxiliary) const {
  context().step->seed = static_cast<uint64_t>(config_.seed);
  context().step->step = static_cast<uint64_t>(micro_step);
  const Batch batch = task_->train_batch(static_cast<uint64_t>(config_.seed), static_cast<uint64_t>(micro_step),
                                         config_.batch);
  const Var outputs = forward_batch(*model_, *task_, batch, true, auxiliary);
  const Var loss = model_->head().loss(outputs, Tensor::from(batch.targets, {batch.rows, batch.length}));
  return config_.accumulate == 1 ? loss : scale(loss, 1.0 / static_cast<double>(config_.accumulate));
}

Trainer::StepResult Trainer::update(double learning_rate) {
  double loss = 0;
  model_->before_step(step_, config_.steps);
  for (int64_t micro = 0; micro < config_.accumulate; ++micro) {
    Var auxiliary;  // what the attentions add to the loss; never part of the loss that is shown
    const Var part = forward_loss(step_ * config_.accumulate + micro, &auxiliary);
    if (auxiliary.defined()) {
      backward(add(part, scale(auxiliary, 1.0 / static_cast<double>(config_.accumulate))));
    } else {
      backward(part);
    }
    loss += part.value().item();
  }
  if (!std::isfinite(loss)) explain_nonfinite(loss, 0);
  optimizer_->step(learning_rate);
  if (!std::isfinite(optimizer_->gradient_norm())) explain_nonfinite(loss, optimizer_->gradient_norm());
  model_->after_step();
  return {loss, optimizer_->gradient_norm()};
}

// Finds what went bad first: a parameter, else the first op of a repeated forward pass, else the gradient.
void Trainer::explain_nonfinite(double loss, double gradient_norm) const {
  const auto shown = [](double x) { return std::isnan(x) ? std::abs(x) : x; };  // nan, not -nan
  const std::string where =
      std::isfinite(loss)
          ? fmt::format("step {}: the loss is {} and the gradient's norm {}", step_ + 1, loss, shown(gradient_norm))
          : fmt::format("step {}: the loss is {}", step_ + 1, shown(loss));
  const std::string advice = fmt::format("; earlier checkpoints are good: lower --lr ({}) or --clip ({})",
                                         config_.lr, config_.clip);
  std::vector<std::pair<std::string, double>> record = {{"loss", loss}};
  if (std::isfinite(loss)) record.emplace_back("grad_norm", gradient_norm);
  metrics_->record(step_ + 1, record);
  if (std::isfinite(loss)) fail(ErrorKind::numeric, "{}: the backward pass overflowed{}", where, advice);
  for (const Parameter& parameter : model_->parameters()) {
    const int64_t bad = ops::count_nonfinite(parameter.var.value());
    if (bad > 0)
      fail(ErrorKind::numeric, "{}: {} values of the parameter {} are not finite{}", where, bad, parameter.name,
           advice);
  }
  try {
    const NoGrad no_grad;
    const DetectNonfinite detect;
    for (int64_t micro = 0; micro < config_.accumulate; ++micro) forward_loss(step_ * config_.accumulate + micro);
  } catch (const Error& error) {
    fail(ErrorKind::numeric, "{}: {}{}", where, error.what(), advice);
  }
  fail(ErrorKind::numeric, "{}{}", where, advice);
}

void Trainer::record_step(double learning_rate, const StepResult& result, bool last) {
  loss_sum_ += result.loss;
  ++losses_;
  const double loss = loss_sum_ / static_cast<double>(losses_);
  const double elapsed = watch_.seconds();
  const double steps = static_cast<double>(step_ - first_step_);
  const double tokens_per_s =
      steps * static_cast<double>(config_.batch * config_.accumulate * task_->length()) / elapsed;
  const double peak = static_cast<double>(cpu_memory().peak);
  if (progress_.due(last)) {
    const double left = elapsed / steps * static_cast<double>(config_.steps - step_);
    progress_.show(fmt::format(
        "step {}/{}  loss {:.4f}  {:.4f} {}  lr {:.2e}  |g| {:.2f}  {} tokens/s  {}  {} elapsed, {} left", step_,
        config_.steps, loss, bits_of(loss), bits_name(task_->shape()), learning_rate,
        result.gradient_norm, count_text(tokens_per_s), bytes_text(peak), duration_text(elapsed),
        duration_text(left)));
  }
  if (!last && step_ % kRecordEvery != 0) return;
  std::vector<std::pair<std::string, double>> record = {{"loss", loss},
                                                        {"bits", bits_of(loss)},
                                                        {"lr", learning_rate},
                                                        {"grad_norm", result.gradient_norm},
                                                        {"tokens_per_s", tokens_per_s},
                                                        {"elapsed_s", elapsed},
                                                        {"peak_bytes", peak}};
  for (const auto& [name, value] : model_->statistics()) record.emplace_back(name, value);
  metrics_->record(step_, record);
  loss_sum_ = 0;
  losses_ = 0;
}

void Trainer::look_at_validation(bool last) {
  const int64_t all = task_->rows(Split::val) * task_->length();
  const bool whole = last && all <= kLongValidation;
  const int64_t rows = whole ? 0 : std::max<int64_t>(1, kValidationTokens / task_->length());
  const Score score = evaluate(*model_, *task_, Split::val, rows);
  metrics_->record(step_, {{"val_loss", score.loss},
                           {"val_bits", score.bits},
                           {"val_accuracy", score.accuracy},
                           {"val_tokens", static_cast<double>(score.tokens)},
                           {"elapsed_s", watch_.seconds()}});
  progress_.note(fmt::format("step {}: validation loss {:.4f}, {:.4f} bits, accuracy {:.4f} over {} tokens{}",
                             step_, score.loss, score.bits, score.accuracy, score.tokens,
                             whole ? "" : " (a part; linea eval takes all)"));
}

// Weights that the next step finds spoilt must not push out a checkpoint that is good.
void Trainer::save() {
  {
    const NoGrad no_grad;
    const double loss = forward_loss(step_ * config_.accumulate).value().item();
    if (!std::isfinite(loss)) explain_nonfinite(loss, 0);
  }
  save_checkpoint(folder_, {step_, losses_, loss_sum_}, config_, vocabulary_, *model_, *optimizer_,
                  config_.keep_last);
}

// Without the ending, which says what it is.
std::string Trainer::sample_base() const {
  return (folder_ / "samples" / fmt::format("step-{:08}", step_)).string();
}

void Trainer::draw_samples() {
  const SamplingOptions options{1.0, false, static_cast<uint64_t>(config_.seed)};
  const std::string base = sample_base();
  if (task_->shape().side > 0) {
    draw_pictures(*model_, task_->shape(), options, {16, -1}, base + ".png", 0);
  } else if (!vocabulary_.empty()) {
    std::string text;
    draw_text(*model_, vocabulary_, options, "", 500, [&](const std::string& piece) { text += piece; });
    write_file_atomically(base + ".txt", text + "\n");
  }
}

// What was due after the step that this run goes on from, but for its checkpoint: the end of the program may
// have come before it.
void Trainer::make_up_for_a_stop() {
  if (due(config_.eval_every) && !metrics_->holds(step_, "val_loss")) look_at_validation(step_ == config_.steps);
  std::error_code error;
  if (due(config_.sample_every) && !fs::exists(sample_base() + ".png", error) &&
      !fs::exists(sample_base() + ".txt", error))
    draw_samples();
}

}  // namespace linea
