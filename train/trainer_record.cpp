// What a training run records: steps, skipped updates, validation and samples.
#include <algorithm>
#include <cmath>

#include "data/files.h"
#include "train/evaluate.h"
#include "train/format.h"
#include "train/nonfinite.h"
#include "train/samples.h"
#include "train/trainer.h"

namespace linea {
namespace {

constexpr int64_t kRecordEvery = 10;
constexpr int64_t kValidationTokens = 131072;      // during training; the end takes the whole split
constexpr int64_t kMaxValidationTokens = 2000000;  // of a split that the end evaluates as a whole
constexpr double kReportSeconds = 10;              // between pages without a validation

double without_sign_of_nan(double x) { return std::isnan(x) ? std::abs(x) : x; }

}  // namespace

// After the first step of a resumed run, so that one that makes none keeps its settings.
void Trainer::record_settings() {
  write_settings();
  if (!setting_changes_.empty()) metrics_->record(step_, {}, {{"settings", setting_changes_}});
}

void Trainer::record_step(double learning_rate, const StepResult& result) {
  const bool last = is_due(config_.save_every);
  if (result.updated) {
    loss_sum_ += result.loss;
    ++loss_count_;
  }
  if (loss_count_ == 0) return;  // only skipped updates since the last record
  const double loss = loss_sum_ / static_cast<double>(loss_count_);
  const double elapsed = watch_.seconds();
  const double steps = static_cast<double>(step_ - first_step_);
  const double tokens_per_s =
      steps * static_cast<double>(config_.batch * config_.accumulate * task_->length()) / elapsed;
  const double peak = static_cast<double>(memory_use().peak);
  if (progress_.due(last)) {
    const double remaining = elapsed / steps * static_cast<double>(config_.steps - step_);
    progress_.show(fmt::format(
        "step {}/{}  {} left  loss {:.4f}  {} tokens/s  {:.4f} {}  lr {:.2e}  "
        "|g| {:.2f}  {}  {} elapsed",
        step_, config_.steps, format_duration(remaining), loss, format_count(tokens_per_s),
        to_bits(loss), bits_name(task_->shape()), learning_rate, result.gradient_norm,
        format_bytes(peak), format_duration(elapsed_seconds())));
  }
  if (!last && step_ % kRecordEvery != 0) return;
  MetricValues record = {{"loss", loss},
                         {"bits", to_bits(loss)},
                         {"lr", learning_rate},
                         {"grad_norm", result.updated ? result.gradient_norm : std::nan("")},
                         {"tokens_per_s", tokens_per_s},
                         {"elapsed_s", elapsed_seconds()},
                         {"peak_bytes", peak}};
  if (guard_.state().skipped > 0)
    record.emplace_back("skipped", static_cast<double>(guard_.state().skipped));
  if (result.updated)
    for (const auto& [name, value] : model_->statistics()) record.emplace_back(name, value);
  metrics_->record(step_, record);
  report_metrics_problem();
  loss_sum_ = 0;
  loss_count_ = 0;
}

// The run continues with the next batch; metrics.jsonl gets a line about the incident.
void Trainer::record_skip(const StepResult& result) {
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  const bool too_many = guard_.record_skip(finite);
  const std::string origin =
      finite ? "a spike"
             : find_nonfinite(*model_, *training_step_, step_, config_.accumulate, result.loss);
  MetricValues values = {{"loss", result.loss}};
  if (result.gradient_norm != 0) values.emplace_back("grad_norm", result.gradient_norm);
  values.emplace_back("seed", static_cast<double>(config_.seed));
  values.emplace_back("skipped", static_cast<double>(guard_.state().skipped));
  metrics_->record(step_ + 1, values,
                   {{"incident", finite ? "spike" : "not finite"}, {"first", origin}});
  std::string what = fmt::format("the loss is {}", without_sign_of_nan(result.loss));
  if (std::isfinite(result.loss) && result.gradient_norm != 0)
    what += fmt::format(" and the gradient norm {}", without_sign_of_nan(result.gradient_norm));
  if (too_many)
    fail(ErrorKind::numeric, "step {}: {}: {}; {} updates in a row were not finite; {}", step_ + 1,
         what, origin, kMaxConsecutiveNonfinite, divergence_hint());
  progress_.note(fmt::format("step {}: {}: {}; the update is skipped ({} so far)", step_ + 1, what,
                             origin, guard_.state().skipped));
}

std::string Trainer::divergence_hint() const {
  return fmt::format("{}: lower --lr ({}) or --clip ({})",
                     saved_step_ < 0
                         ? "nothing was saved yet"
                         : fmt::format("the checkpoint of step {} is good", saved_step_),
                     config_.lr, config_.clip);
}

// True where this is the best validation so far.
bool Trainer::validate(bool last) {
  const int64_t all = task_->rows(Split::val) * task_->length();
  const int64_t part = std::max<int64_t>(1, kValidationTokens / task_->length());
  const bool whole = (last && all <= kMaxValidationTokens) || part >= task_->rows(Split::val);
  const Score score = evaluate(*model_, *task_, Split::val, config_.batch, whole ? 0 : part,
                               [&](int64_t, int64_t) { check_for_stop(); });
  MetricValues values = {{"val_loss", score.loss},
                         {"val_bits", score.bits},
                         {"val_accuracy", score.accuracy},
                         {"val_tokens", static_cast<double>(score.tokens)},
                         {"elapsed_s", elapsed_seconds()}};
  const bool text = is_text(task_->shape());
  if (text) values.emplace_back("val_bits_per_byte", score.bits_per_byte);
  metrics_->record(step_, values);
  progress_.note(fmt::format(
      "step {}: validation loss {:.4f}, {:.4f} bits, {}accuracy {:.4f} over {} tokens{}", step_,
      score.loss, score.bits, text ? fmt::format("{:.4f} bits/byte, ", score.bits_per_byte) : "",
      score.accuracy, score.tokens,
      whole ? "" : " (part of the split; linea eval takes all of it)"));
  next_report_ = 0;  // now: the page shows this validation
  return best_step(metrics_->validations(), [](int64_t) { return true; }) == step_;
}

// Without the extension.
std::string Trainer::sample_base() const {
  return (folder_ / "samples" / fmt::format("step-{:08}", step_)).string();
}

void Trainer::write_samples() try {
  const SamplingOptions options{1.0, false, static_cast<uint64_t>(config_.seed)};
  const std::string base = sample_base();
  if (task_->shape().side > 0) {
    progress_.show_preview(sample_images(*model_, task_->shape(), options, {16, -1}, base + ".png",
                                         progress_.preview_width(), sampling_progress()));
  } else if (!vocabulary_.empty()) {
    std::string text;
    sample_text(*model_, vocabulary_, options, {}, [&](const std::string& sampled) {
      check_for_stop();
      text += sampled;
    });
    write_file_atomically(base + ".txt", text + "\n");
  }
  metrics_->record_sample(step_, base);
  if (judge_) judge_samples();
} catch (const Error& error) {
  if (error.kind() != ErrorKind::write) throw;
  progress_.note(fmt::format("no sample of step {}: {}{}", step_, error.what(),
                             step_ == config_.steps ? "" : "; training continues"));
}

SamplingProgress Trainer::sampling_progress() {
  return [this](int64_t done, int64_t all) {
    check_for_stop();
    if (progress_.due(done == all))
      progress_.show(fmt::format("samples: {} of {} tokens", done, all));
  };
}

void Trainer::judge_samples() {
  const MetricValues values = judge_(*model_, sampling_progress());
  metrics_->record(step_, values);
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}{} {:.3g}", text.empty() ? "" : ", ", name, value);
  progress_.note(
      fmt::format("step {}: {}: {}", step_, plural(config_.judge_samples, "sample"), text));
}

// Of a running run after each validation, and between them every ten seconds, or more rarely where
// reading the whole record takes long. A page that cannot be written does not stop the run.
void Trainer::report(RunStatus status) try {
  const double start = watch_.seconds();
  if (status == RunStatus::running && (start < next_report_ || step_ == config_.steps)) return;
  write_report(folder_, config_, task_->shape(), step_, status);
  next_report_ = start + std::max(kReportSeconds, 100 * (watch_.seconds() - start));
} catch (const std::exception& error) {
  if (!report_failed_) progress_.note(fmt::format("no report.html: {}", error.what()));
  report_failed_ = true;
}

// Once, when lines of metrics.jsonl start to be buffered.
void Trainer::report_metrics_problem() {
  const bool buffered = !metrics_->problem().empty();
  if (buffered && !metrics_buffered_)
    progress_.note(metrics_->problem() +
                   "; training continues, and the lines are kept in memory until there is room");
  metrics_buffered_ = buffered;
}

}  // namespace linea
