// Time and memory of a training step of each mechanism.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/compare.h"
#include "bench/random_tokens.h"
#include "data/files.h"
#include "data/json.h"
#include "nn/model.h"
#include "tensor/context.h"
#include "train/run/out_of_memory_hint.h"
#include "train/run/signals.h"
#include "train/run/step_memory.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The model is that of this task: the tasks that the command names itself have the same.
constexpr const char* kModelOf = "copy";
constexpr int64_t kBytes = 256, kClasses = 2;

TaskShape bytes_with_answer(int64_t length) {
  TaskShape shape;
  shape.vocab_size = kClasses;
  shape.input_vocab_size = kBytes + 1;
  shape.length = length;
  shape.answer_tokens = 1;
  return shape;
}

// Nothing where a signal stopped it.
std::optional<StepCost> measure(const RunConfig& config, int64_t length) {
  device_allocator().release_cache();
  const size_t empty = device_allocator().use().held;
  const RandomTokens task(bytes_with_answer(length));
  const std::unique_ptr<Model> model = make_model(model_config(config, task.shape()));
  Optimizer optimizer(optimizer_config(config), model->parameters());
  const int64_t rows = std::max<int64_t>(1, kStepTokens / length);
  StepCost cost{length, model->config().causal};
  std::vector<double> seconds;
  for (int64_t step = 0; step <= kSteps; ++step) {
    if (!stop_signal().empty()) return {};
    const size_t held = device_allocator().use().held - empty;
    const MeasuredStep measured = measure_step(*model, optimizer, task, config, step, rows, 1);
    if (step > 0) seconds.push_back(measured.seconds);
    cost.peak_bytes = std::max(cost.peak_bytes, static_cast<double>(held + measured.peak));
  }
  cost.seconds = median(seconds);
  return cost;
}

Json json_of(const MechanismCost& cost, const Compared& mechanism) {
  Json steps = Json::array();
  for (const StepCost& step : cost.steps)
    steps.push_back({{"length", step.length},
                     {"causal", step.causal},
                     {"step_s", step.seconds},
                     {"peak_bytes", step.peak_bytes}});
  return {{"attention", mechanism.attention},
          {"label", mechanism.label},
          {"threads", context().threads},
          {"tokens", kStepTokens},
          {"state", cost.state},
          {"reason", cost.reason.empty() ? Json() : Json(cost.reason)},
          {"steps", steps}};
}

// Empty where the file is missing, damaged, or of other lengths.
MechanismCost read_cost(const fs::path& file, const std::vector<int64_t>& lengths) {
  MechanismCost cost;
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  const Json json = Json::parse(read_file(file), nullptr, false);
  if (!json.is_object()) return {};
  try {
    cost.state = json.at("state");
    if (json.at("reason").is_string()) cost.reason = json.at("reason");
    for (const Json& step : json.at("steps"))
      cost.steps.push_back(
          {step.at("length"), step.at("causal"), step.at("step_s"), step.at("peak_bytes")});
  } catch (const Json::exception&) {
    return {};
  }
  if (cost.state == "excluded") return cost;
  if (cost.state != "measured" || cost.steps.size() != lengths.size()) return {};
  for (const int64_t length : lengths)
    if (cost.at(length) == nullptr) return {};
  return cost;
}

}  // namespace

const StepCost* MechanismCost::at(int64_t length) const {
  for (const StepCost& step : steps)
    if (step.length == length) return &step;
  return nullptr;
}

MechanismCost cost_of(const fs::path& folder, const CompareRequest& request,
                      const Compared& mechanism, ProgressReporter& progress) {
  const fs::path file = folder / "speed" / (mechanism.label + ".json");
  const std::vector<int64_t> lengths = lengths_of(request.lengths);
  MechanismCost cost = read_cost(file, lengths);
  if (!cost.state.empty()) return cost;
  cost.state = "measured";
  try {
    const RunConfig config = run_config(request, kModelOf, mechanism.attention, 1);
    cost.reason = exclusion(config, bytes_with_answer(lengths.front()));
    for (const int64_t length : lengths) {
      if (!cost.reason.empty()) break;
      if (progress.due())
        progress.show(fmt::format("time and memory of {}  length {}", mechanism.attention, length));
      const auto step = with_out_of_memory_hint(config, [&] { return measure(config, length); });
      if (!step) return {{}, "stopped", ""};
      cost.steps.push_back(*step);
    }
    if (!cost.reason.empty()) cost.state = "excluded";
  } catch (const Error& error) {
    cost.reason = error.what();
    cost.state = "failed";
  }
  device_allocator().release_cache();
  make_folders(folder / "speed");
  write_file_atomically(file, dump_json(json_of(cost, mechanism), 1) + "\n");
  return cost;
}

}  // namespace linea::bench
