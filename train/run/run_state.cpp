#include "train/run/run_state.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/system.h"
#include "data/files.h"
#include "data/hash.h"
#include "data/json.h"
#include "parallel/ranks.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "train/model_file.h"

namespace linea {
namespace {

// The integer under `key`.
int64_t integer_at(const nlohmann::json& object, const char* key, const std::string& path) {
  if (!object.contains(key) || !object[key].is_number_integer())
    fail(ErrorKind::input, "{} has no integer '{}'", path, key);
  return object[key].get<int64_t>();
}

// The number under `key`, 0 where there is none.
double number_at(const nlohmann::json& object, const char* key, const std::string& path) {
  if (!object.contains(key)) return 0;
  if (!object[key].is_number()) fail(ErrorKind::input, "{}: its '{}' is not a number", path, key);
  return object[key].get<double>();
}

}  // namespace

Environment current_environment() {
  static const std::string program_hash = hash_file(program_file());
  const BlasInfo blas = blas_info();
  const std::string isa = cpu_isa() + std::string(rounds_on_cpu() ? " with " : "") +
                          (rounds_on_cpu() ? bf16_isa() : "");
  return {{"program", program_hash},          {"blas", blas.version},
          {"blas_kernel", blas.kernel},       {"isa", isa},
          {"device", context().device.str()}, {"ranks", std::to_string(ranks().size())}};
}

std::string run_state_json(const RunState& state, int64_t updates) {
  const GuardState& guard = state.guard;
  nlohmann::ordered_json json = {{"format", kCheckpointFormat},
                                 {"step", state.step},
                                 {"updates", updates},
                                 {"loss_count", state.loss_count},
                                 {"loss_sum", state.loss_sum},
                                 {"skipped", guard.skipped},
                                 {"consecutive_nonfinite", guard.consecutive_nonfinite},
                                 {"consecutive_spikes", guard.consecutive_spikes},
                                 {"mean_count", guard.mean_count},
                                 {"mean_loss", guard.mean_loss},
                                 {"mean_grad_norm", guard.mean_norm},
                                 {"averaged", state.averaged},
                                 {"data", state.data}};
  for (const auto& [name, value] : current_environment()) json["environment"][name] = value;
  return dump_json(json, 1) + "\n";
}

SavedState read_run_state(const std::filesystem::path& file) {
  const std::string path = file.string();
  const nlohmann::json json = parse_json(read_file(file));
  if (!json.is_object()) fail(ErrorKind::input, "{} is not a JSON object", path);
  const auto integer = [&](const char* key) { return integer_at(json, key, path); };
  const auto number = [&](const char* key) { return number_at(json, key, path); };
  SavedState saved;
  saved.updates = integer("updates");
  RunState& state = saved.state;
  state.step = integer("step");
  state.loss_count = integer("loss_count");
  state.loss_sum = number("loss_sum");
  state.guard = {integer("skipped"),
                 integer("consecutive_nonfinite"),
                 integer("consecutive_spikes"),
                 integer("mean_count"),
                 number("mean_loss"),
                 number("mean_grad_norm")};
  if (!json.contains("data") || !json["data"].is_string() || !json.contains("environment") ||
      !json["environment"].is_object())
    fail(ErrorKind::input, "{} does not name its data and its environment", path);
  state.data = json["data"].get<std::string>();
  if (json.contains("averaged")) state.averaged = integer("averaged");  // not in version 0.1.0
  for (const auto& [name, current] : current_environment()) {
    const auto value = json["environment"].find(name);
    const bool known = value != json["environment"].end() && value->is_string();
    // Earlier versions had one rank and did not say so.
    saved.environment.emplace_back(name, known             ? value->get<std::string>()
                                         : name == "ranks" ? "1"
                                                           : "unknown");
  }
  return saved;
}

void note_environment_changes(const Environment& before, const Note& note) {
  const Environment now = current_environment();
  std::vector<std::string> changes;
  for (size_t i = 0; i < now.size(); ++i)
    if (before[i].second != now[i].second)
      changes.push_back(
          fmt::format("{} was {}, is {}", now[i].first, before[i].second, now[i].second));
  if (!changes.empty())
    note(fmt::format("the run continues, but not with the same bits as without the stop: {}",
                     fmt::join(changes, "; ")));
}

void note_setting_changes(const RunConfig& before, const RunConfig& now, const Note& note) {
  std::vector<std::string> changes;
  for (const SettingChange& change : setting_changes(before, now))
    if (change.setting.affects_training) changes.push_back(change.text);
  if (!changes.empty())
    note(fmt::format("the run continues with other settings: {}", fmt::join(changes, "; ")));
}

void note_rate_change(int64_t step, const RunConfig& before, const RunConfig& now,
                      const Note& note) {
  constexpr double kNoticed = 1.01;
  const double old_rate = learning_rate_at(step, before), rate = learning_rate_at(step, now);
  if (std::max(rate, old_rate) <= kNoticed * std::min(rate, old_rate)) return;
  const int64_t end = schedule_end(before);
  note(fmt::format(
      "the learning rate of step {} becomes {:.3g}, {} {:.3g} of the schedule before{}", step + 1,
      rate, old_rate > 0 ? fmt::format("{:.3g} times the", rate / old_rate) : "instead of the",
      old_rate,
      schedule_end(now) == end
          ? ""
          : fmt::format(", which ends at step {0}; --decay-steps {0} keeps that end", end)));
}

}  // namespace linea
