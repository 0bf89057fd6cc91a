#include "train/metrics.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/disk.h"
#include "data/files.h"
#include "tensor/error.h"

namespace linea {
namespace {

// Past any step where the line has none.
int64_t step_in(const nlohmann::json& record) {
  const auto step = record.find("step");
  return step != record.end() && step->is_number_integer() ? step->get<int64_t>() : INT64_MAX;
}

// The lines whose step is not after `last_step`; a line that was cut short by a kill goes too.
std::string lines_until(const std::string& text, int64_t last_step) {
  std::istringstream lines(text);
  std::string line, kept;
  while (std::getline(lines, line)) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && step_in(record) <= last_step) kept += line + "\n";
  }
  return kept;
}

// Calls see(step, record) for each whole line.
template <typename See>
void for_each_record(const std::filesystem::path& path, const See& see) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object()) see(step_in(record), record);
  }
}

}  // namespace

Metrics::Metrics(const std::filesystem::path& path, int64_t last_step, bool echo) : path_(path), echo_(echo) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) write_file_atomically(path, lines_until(read_file(path), last_step));
  if (const int reason = disk::open_to_append(path, descriptor_))
    fail(ErrorKind::write, "cannot write {}: {}", path.string(), std::strerror(reason));
}

Metrics::~Metrics() { disk::close(descriptor_, path_); }

bool Metrics::holds(int64_t step, const std::string& name) const {
  bool found = false;
  for_each_record(path_, [&](int64_t at, const nlohmann::json& record) {
    found = found || (at == step && record.contains(name));
  });
  return found;
}

int64_t Metrics::step_of_lowest(const std::string& name) const {
  int64_t step = -1;
  double lowest = 0;
  for_each_record(path_, [&](int64_t at, const nlohmann::json& record) {
    const auto value = record.find(name);
    if (value == record.end() || !value->is_number()) return;
    if (step >= 0 && value->get<double>() > lowest) return;
    lowest = value->get<double>();
    step = at;
  });
  return step;
}

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
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  waiting_ += text + "\n";
  write_waiting();
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

void Metrics::write_waiting() {
  size_t written = 0;
  const int reason = disk::write(descriptor_, path_, waiting_.data(), waiting_.size(), &written);
  waiting_.erase(0, written);  // the rest of a line follows its beginning
  problem_ = reason == 0 ? "" : fmt::format("cannot write {}: {}", path_.string(), std::strerror(reason));
}

void Metrics::flush() {
  if (!waiting_.empty()) write_waiting();
  disk::flush(descriptor_, path_);
}

}  // namespace linea
