#include "train/metrics.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/disk.h"
#include "data/files.h"
#include "data/json.h"
#include "tensor/error.h"

namespace linea {
namespace {

// The integer under `name`; INT64_MAX where there is none.
int64_t integer_at(const nlohmann::json& record, const char* name) {
  const auto value = record.find(name);
  return value != record.end() && value->is_number_integer() ? value->get<int64_t>() : INT64_MAX;
}

// The number under `name`; NaN where there is none.
double number_at(const nlohmann::json& record, const char* name) {
  const auto value = record.find(name);
  return value != record.end() && value->is_number() ? value->get<double>() : std::nan("");
}

}  // namespace

Metrics::Metrics(const std::filesystem::path& path, int64_t last_step, bool echo)
    : path_(path), echo_(echo) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    std::istringstream lines(read_file(path));
    std::string text;  // without a line that a kill truncated
    for (std::string line; std::getline(lines, line);) {
      // Not ordered_json, which copies its nested values as it grows.
      const nlohmann::json record = parse_json(line);
      if (!record.is_object() || integer_at(record, "step") > last_step) continue;
      if (record.contains("val_loss"))
        validations_[integer_at(record, "step")] = {number_at(record, "val_loss"),
                                                    integer_at(record, "val_tokens")};
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
      line[name] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    } else if (value == std::floor(value) && std::abs(value) < 1e15) {
      line[name] = static_cast<int64_t>(value);
    } else {
      line[name] = value;
    }
  }
  for (const auto& [name, text] : remarks) line[name] = text;
  const std::string text = dump_json(line, -1, InvalidUtf8::replace);
  for (const auto& [name, value] : values) {
    if (name == "val_loss") validations_[step].loss = value;
    if (name == "val_tokens") validations_[step].tokens = static_cast<int64_t>(value);
  }
  pending_ += text + "\n";
  write_pending();
  if (echo_) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  if (events_) events_->scalars(step, values);
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

int64_t Metrics::best_step(const std::function<bool(int64_t)>& eligible) const {
  int64_t tokens = INT64_MAX, best = -1;
  for (const auto& [step, validation] : validations_) tokens = std::min(tokens, validation.tokens);
  double lowest = 0;
  for (const auto& [step, validation] : validations_) {
    if (validation.tokens != tokens || !std::isfinite(validation.loss) || !eligible(step)) continue;
    if (best >= 0 && validation.loss > lowest) continue;
    lowest = validation.loss;
    best = step;
  }
  return best;
}

void Metrics::set_problem(int reason) {
  problem_ =
      reason == 0 ? "" : fmt::format("cannot write {}: {}", path_.string(), std::strerror(reason));
}

}  // namespace linea
