// Records of a training run: steps, skipped updates, validation and samples.
#include <algorithm>
#include <cmath>

#include "data/files.h"
#include "train/evaluate.h"
#include "train/format.h"
#include "train/run/early_stop.h"
#include "train/run/nonfinite.h"
#include "train/run/trainer.h"
#include "train/samples.h"

namespace linea {
namespace {

constexpr int64_t kRecordEvery = 10;
constexpr int64_t kValidationTokens = 131072;      // of the usual rows, which all validations share
constexpr int64_t kMaxValidationTokens = 2000000;  // of a split that the end also takes as a whole
constexpr double kReportSeconds = 10;              // between pages without a validation

double without_sign_of_nan(double x) { return std::isnan(x) ? std::abs(x) : x; }

void add_score(const std::string& prefix, const Score& score, bool text, MetricValues& values) {
  values.emplace_back(prefix + "loss", score.loss);
  values.emplace_back(prefix + "bits", score.bits);
  values.emplace_back(prefix + "accuracy", score.accuracy);
  values.emplace_back(prefix + "tokens", static_cast<double>(score.tokens));
  if (text) values.emplace_back(prefix + "bits_per_byte", score.bits_per_byte);
  if (score.majority > 0) values.emplace_back(prefix + "majority", score.majority);
}

std::string describe(const Score& score, bool text) {
  if (score.majority > 0)
    return fmt::format("loss {:.4f}, accuracy {:.4f} of {} answers; the commonest class is {:.4f}",
                       score.loss, score.accuracy, score.tokens, score.majority);
  return fmt::format("loss {:.4f}, {:.4f} bits, {}accuracy {:.4f} over {} tokens", score.loss,
                     score.bits, text ? fmt::format("{:.4f} bits/byte, ", score.bits_per_byte) : "",
                     score.accuracy, score.tokens);
}

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
  double peak = static_cast<double>(device_allocator().use().peak);
  if (progress_.due(last)) {
    const std::string left =
        step_ - first_step_ < kTimedAfter
            ? ""
            : format_duration(elapsed / steps * static_cast<double>(config_.steps - step_)) +
                  " left  ";
    progress_.show(
        fmt::format("step {}/{}  {}loss {:.4f}  {} tokens/s  {:.4f} {}  lr {:.2e}  "
                    "|g| {:.2f}  {}  {} elapsed",
                    step_, config_.steps, left, loss, format_count(tokens_per_s), to_bits(loss),
                    bits_name(task_->shape()), learning_rate, result.gradient_norm,
                    format_bytes(peak), format_duration(elapsed_seconds())));
  }
  if (!last && step_ % kRecordEvery != 0) return;
  for (const double other : ranks_.all_gather(peak, "the memory in use"))
    peak = std::max(peak, other);
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
  if (!ranks_.alone()) {
    const auto [mean, largest] = shares_of_waiting();
    record.emplace_back("ranks", static_cast<double>(ranks_.size()));
    record.emplace_back("wait_share", mean);
    record.emplace_back("max_wait_share", largest);
  }
  if (main_) {
    metrics_->record(step_, record);
    report_metrics_problem();
  }
  loss_sum_ = 0;
  loss_count_ = 0;
}

// The shares of the time since the last record that ranks waited for others: their mean, and the
// largest.
std::pair<double, double> Trainer::shares_of_waiting() {
  const double now = watch_.seconds(), waited = ranks_.waited_seconds();
  const double own = (waited - waited_before_) / std::max(1e-9, now - recorded_at_);
  recorded_at_ = now;
  waited_before_ = waited;
  double sum = 0, largest = 0;
  for (const double share : ranks_.all_gather(own, "the time of waiting")) {
    sum += share;
    largest = std::max(largest, share);
  }
  return {sum / ranks_.size(), largest};
}

// The run continues with the next batch; metrics.jsonl gets a line about the incident.
void Trainer::record_skip(const StepResult& result) {
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  const bool too_many = guard_.record_skip(finite);
  const std::string origin =
      finite ? "a spike" : find_nonfinite(*model_, *training_step_, ranks_, step_, result.loss);
  MetricValues values = {{"loss", result.loss}};
  if (result.gradient_norm != 0) values.emplace_back("grad_norm", result.gradient_norm);
  values.emplace_back("seed", static_cast<double>(config_.seed));
  values.emplace_back("skipped", static_cast<double>(guard_.state().skipped));
  if (main_)
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
  std::string rates = fmt::format("--lr ({})", config_.lr);
  for (const AppliedSetting& applied : applied_settings(config_))
    if (applied.setting.key == "muon_lr")
      rates = fmt::format("--muon-lr ({}), {}", to_string(applied.value), rates);
  return fmt::format(
      "{}: lower {} or {}",
      saved_step_ < 0 ? "nothing was saved yet"
                      : fmt::format("the checkpoint of step {} is good", saved_step_),
      rates,
      config_.clip > 0 ? fmt::format("--clip ({})", config_.clip) : "limit gradients by --clip 1");
}

// Every validation takes the same rows of the split, so that their losses compare; the last one
// also measures the whole split, under keys of its own. True where these or the averaged weights
// are the best so far.
bool Trainer::validate(bool last) {
  const int64_t rows = task_->rows(Split::val);
  const bool text = is_text(task_->shape());
  const int64_t usual = std::min(rows, std::max<int64_t>(1, kValidationTokens / task_->length()));
  const auto score_of = [&](const Model& model, int64_t count) {
    return evaluate(
        model, *task_, Split::val, config_.batch, count,
        [&](int64_t, int64_t) { check_for_stop(); }, &ranks_, config_.sequence_ranks);
  };
  same_weights_->check(step_);
  const Score score = score_of(*model_, usual);
  MetricValues values;
  add_score("val_", score, text, values);
  std::string note = fmt::format("step {}: validation {}", step_, describe(score, text));
  stopped_early_ = decide("the early stop", [&] {
    Validations all = metrics_->validations();
    all[step_] = {score.loss, score.tokens};
    return stops_early(all, config_.early_stop);
  });
  if ((last || stopped_early_) && rows * task_->length() <= kMaxValidationTokens) {
    const Score whole = usual == rows ? score : score_of(*model_, rows);
    add_score("whole_val_", whole, text, values);
    if (usual < rows) note += "; of the whole split: " + describe(whole, text);
  } else if (usual < rows) {
    note += " (part of the split; linea eval takes all of it)";
  }
  if (average_) {
    values.emplace_back("val_loss_ema", score_of(average_->model(), usual).loss);
    note += fmt::format("; loss of the averaged weights {:.4f}", values.back().second);
  }
  values.emplace_back("elapsed_s", elapsed_seconds());
  if (main_) metrics_->record(step_, values);
  progress_.note(note);
  next_report_ = 0;  // now: the page shows this validation
  return decide("the best step",
                [&] { return is_best(Weights::last) || (average_ && is_best(Weights::average)); });
}

// Without the extension.
std::string Trainer::sample_base() const {
  return (folder_ / "samples" / fmt::format("step-{:08}", step_)).string();
}

// All ranks sample images; rank 0 samples text and judges.
void Trainer::write_samples() try {
  if (task_->shape().answer_tokens > 0) return;
  const SamplingOptions options{1.0, false, static_cast<uint64_t>(config_.seed)};
  const std::string base = sample_base();
  if (task_->shape().side > 0)
    progress_.show_preview(sample_images(*model_, task_->shape(), options, {16, -1, {}, &ranks_},
                                         base + ".png", progress_.preview_width(),
                                         sampling_progress()));
  on_main("the samples", [&] {
    if (!vocabulary_.empty() && task_->shape().side == 0) {
      std::string text;
      sample_text(*model_, vocabulary_, options, {}, [&](const std::string& sampled) {
        check_for_stop();
        text += sampled;
      });
      write_file_atomically(base + ".txt", text + "\n");
    }
    metrics_->record_sample(step_, base);
    if (judge_) judge_samples();
  });
} catch (const Error& error) {
  if (error.kind() != ErrorKind::write) throw;
  progress_.note(fmt::format("no sample of step {}: {}{}", step_, error.what(),
                             at_end() ? "" : "; training continues"));
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

// Writes report.html after each validation and every ten seconds, less often if reading the record
// is slow. A page that cannot be written does not stop the run.
void Trainer::report(RunStatus status) try {
  if (!main_) return;
  const double start = watch_.seconds();
  if (status == RunStatus::running && (start < next_report_ || at_end())) return;
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
