#include "train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/files.h"
#include "tensor/error.h"

namespace linea {
namespace {

// The lines whose step is not after `last_step`; a line that was cut short by a kill goes too.
std::string lines_until(const std::string& text, int64_t last_step) {
  std::istringstream lines(text);
  std::string line, kept;
  while (std::getline(lines, line)) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && record.value("step", int64_t{-1}) <= last_step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

Metrics::Metrics(const std::filesystem::path& path, int64_t last_step, bool echo)
    : path_(path), echo_(echo) {
  std::error_code error;
  if (std::filesystem::exists(path, error))
    write_file_atomically(path.string(), lines_until(read_file(path.string()), last_step));
  file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) fail(ErrorKind::write, "cannot write {}: {}", path.string(), std::strerror(errno));
}

bool Metrics::holds(int64_t step, const std::string& name) const {
  std::istringstream lines(read_file(path_.string()));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && record.value("step", int64_t{-1}) == step && record.contains(name)) return true;
  }
  return false;
}

void Metrics::record(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
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
  const std::string text = line.dump();
  if (std::fprintf(file_.get(), "%s\n", text.c_str()) < 0 || std::fflush(file_.get()) != 0)
    fail(ErrorKind::write, "cannot write {}: {}; free some space and go on with --resume", path_.string(),
         std::strerror(errno));
  if (echo_) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  if (events_) events_->scalars(step, values);
}

void Metrics::record_sample(int64_t step, const std::string& base) {
  if (!events_) return;
  std::error_code error;
  if (std::filesystem::exists(base + ".png", error)) events_->picture(step, "samples", read_file(base + ".png"));
  if (std::filesystem::exists(base + ".txt", error)) events_->text(step, "samples", read_file(base + ".txt"));
}

}  // namespace linea
