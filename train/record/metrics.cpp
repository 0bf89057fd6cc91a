#include "train/record/metrics.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "data/disk.h"
#include "data/files.h"
#include "data/json.h"

namespace linea {
namespace {

constexpr double kMaxInteger = 9e15;  // that a double counts to exactly

// Numbers that are not finite are written as these texts.
const char* nonfinite_text(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

double MetricsLine::value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::nan("") : found->second;
}

std::optional<MetricsLine> parse_metrics_line(const std::string& text) {
  // Not ordered_json, which copies its nested values as it grows.
  const nlohmann::json document = parse_json(text);
  if (!document.is_object()) return std::nullopt;
  const auto step = document.find("step");
  if (step == document.end() || !step->is_number_integer()) return std::nullopt;
  MetricsLine line;
  line.step = step->get<int64_t>();
  line.incident = document.contains("incident");
  for (const auto& [name, value] : document.items()) {
    if (name != "step" && value.is_number()) line.values[name] = value.get<double>();
    if (value == "nan" || value == "inf" || value == "-inf") line.values[name] = std::nan("");
  }
  return line;
}

void add_validation(const MetricsLine& line, Validations& validations, Weights weights) {
  const char* const key = weights == Weights::last ? "val_loss" : "val_loss_ema";
  if (line.values.count(key) == 0) return;
  const double tokens = line.value("val_tokens");
  const bool counted = std::abs(tokens) < kMaxInteger;  // false for NaN
  validations[line.step] = {line.value(key), counted ? static_cast<int64_t>(tokens) : INT64_MAX};
}

int64_t min_tokens(const Validations& validations) {
  int64_t tokens = INT64_MAX;
  for (const auto& [step, validation] : validations) tokens = std::min(tokens, validation.tokens);
  return tokens;
}

int64_t best_step(const Validations& validations, const std::function<bool(int64_t)>& eligible) {
  const int64_t tokens = min_tokens(validations);
  int64_t best = -1;
  double lowest = 0;
  for (const auto& [step, validation] : validations) {
    if (validation.tokens != tokens || !std::isfinite(validation.loss) || !eligible(step)) continue;
    if (best >= 0 && validation.loss > lowest) continue;
    lowest = validation.loss;
    best = step;
  }
  return best;
}

std::vector<int64_t> uncompared_steps(const Validations& validations) {
  const int64_t tokens = min_tokens(validations);
  std::vector<int64_t> steps;
  for (const auto& [step, validation] : validations)
    if (validation.tokens != tokens) steps.push_back(step);
  return steps;
}

Metrics::Metrics(const std::filesystem::path& path, int64_t last_step, bool echo)
    : path_(path), echo_(echo) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    std::istringstream lines(read_file(path));
    std::string text;  // without a line that a kill truncated
    for (std::string line; std::getline(lines, line);) {
      const std::optional<MetricsLine> record = parse_metrics_line(line);
      if (!record || record->step > last_step) continue;
      add_validations(*record);
      if (const double elapsed = record->value("elapsed_s"); std::isfinite(elapsed))
        elapsed_seconds_ = elapsed;
      text += line + "\n";
    }
    write_file_atomically(path, text);
  }
  if (const int reason = disk::open_to_append(path, descriptor_))
    fail(ErrorKind::write, "cannot write {}: {}", path.string(), std::strerror(reason));
}

Metrics::~Metrics() { disk::close(descriptor_, path_); }

void Metrics::record(int64_t step, const std::vector<std::pair<std::string, double>>& values,
                     const std::vector<std::pair<std::string, std::string>>& remarks) {
  nlohmann::ordered_json line;
  line["step"] = step;
  for (const auto& [name, value] : values) {
    if (!std::isfinite(value)) {
      line[name] = nonfinite_text(value);
    } else if (value == std::floor(value) && std::abs(value) < 1e15) {
      line[name] = static_cast<int64_t>(value);
    } else {
      line[name] = value;
    }
  }
  for (const auto& [name, text] : remarks) line[name] = text;
  const std::string text = dump_json(line);
  add_validations({step, {values.begin(), values.end()}});
  pending_ += text + "\n";
  write_pending();
  if (echo_) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  if (events_ && !values.empty()) events_->scalars(step, values);
}

void Metrics::add_validations(const MetricsLine& line) {
  add_validation(line, validations_);
  add_validation(line, average_validations_, Weights::average);
}

void Metrics::record_sample(int64_t step, const std::string& base) {
  if (!events_) return;
  std::error_code error;
  if (std::filesystem::exists(base + ".png", error))
    events_->image(step, "samples", read_file(base + ".png"));
  if (std::filesystem::exists(base + ".txt", error))
    events_->text(step, "samples", read_file(base + ".txt"));
}

void Metrics::write_pending() {
  struct stat facts {};
  if (fstat(descriptor_, &facts) == 0 && facts.st_nlink == 0) {  // it was removed
    disk::close(descriptor_, path_);
    disk::open_to_append(path_, descriptor_);
  }
  size_t written = 0;
  const int reason = disk::write(descriptor_, path_, pending_.data(), pending_.size(), &written);
  pending_.erase(0, written);  // a partly written line is continued later
  set_problem(reason);
}

void Metrics::flush() {
  if (!pending_.empty()) write_pending();
  if (problem_.empty()) set_problem(disk::flush(descriptor_, path_));
}

void Metrics::set_problem(int reason) {
  problem_ =
      reason == 0 ? "" : fmt::format("cannot write {}: {}", path_.string(), std::strerror(reason));
}

}  // namespace linea
