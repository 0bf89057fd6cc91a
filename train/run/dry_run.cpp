#include "train/run/dry_run.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/json.h"
#include "data/tasks/task.h"
#include "train/flops.h"
#include "train/format.h"
#include "train/machine.h"
#include "train/run/checkpoint.h"
#include "train/run/out_of_memory_hint.h"
#include "train/run/run_task.h"
#include "train/run/step_memory.h"
#include "train/timing.h"

namespace linea {
namespace {

constexpr int64_t kTimedSteps = 3;
// Sizes of a step from which a larger one is extrapolated.
constexpr int64_t kTimedRows = 16, kTimedTokens = 32768;
constexpr double kMaxSeconds = 30;  // for steps of the whole batch

// Parameters whose names differ only in the block number.
struct ParameterGroup {
  std::string name;  // "blocks.*.qkv.weight"
  Shape shape;
  int64_t count;
};

// Bytes of tensors, and of the batch in host memory, at the peak of a step; activations are all of
// no other category.
struct StepMemory {
  MemoryParts parts;
  std::string source;  // measured or estimated, and how
};

struct StepTime {
  double seconds;
  std::string source;  // measured or estimated, and how
};

// The run before its next step.
struct PreparedRun {
  RunConfig config;
  std::unique_ptr<Task> task;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<WeightAverage> average;  // null without --ema
  int64_t step = 0;
  MemoryParts memory() const {
    return training_memory(model.get(), optimizer.get(), average.get());
  }
};

struct Report {
  std::vector<ParameterGroup> groups;
  StepMemory memory;
  StepTime time;
  MemoryLimit limit;
  double flops_per_token;
  int64_t tokens, checkpoint_bytes;
  bool fits() const { return memory.parts.sum() <= limit.bytes; }
};

std::string without_block(const std::string& name) {
  constexpr const char* kBlocks = "blocks.";
  if (name.rfind(kBlocks, 0) != 0) return name;
  return std::string(kBlocks) + "*" + name.substr(name.find('.', std::string(kBlocks).size()));
}

std::vector<ParameterGroup> group_parameters(const Parameters& parameters) {
  std::vector<ParameterGroup> groups;
  for (const Parameter& parameter : parameters) {
    const std::string name = without_block(parameter.name);
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& group) {
      return group.name == name && group.shape == parameter.var.shape();
    });
    if (same != groups.end()) {
      ++same->count;
    } else {
      groups.push_back({name, parameter.var.shape(), 1});
    }
  }
  return groups;
}

PreparedRun prepare(const RunConfig& settings, const std::filesystem::path& resumed,
                    const std::string& initial) {
  PreparedRun run;
  run.config = settings;
  RunConfig& config = run.config;
  check_settings(config);
  use_machine(config.threads, config.device, config.dtype);
  config.threads = context().threads;
  run.task = !resumed.empty()  ? resumed_task(config, resumed)
             : initial.empty() ? make_task(task_options(config, ""))
                               : initial_task(config, initial);
  const std::string vocabulary = run.task->serialized_vocabulary();
  const ModelConfig model = model_config(config, run.task->shape());
  refuse_too_many_weights(config, model);
  run.model = make_model(model);
  run.optimizer = std::make_unique<Optimizer>(optimizer_config(config), run.model->parameters());
  if (config.ema > 0) run.average = std::make_unique<WeightAverage>(*run.model, config.ema);
  const Note note = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (!resumed.empty()) {
    const RestoredRun at = restore_checkpoint(resumed, *run.model, *run.optimizer, config,
                                              vocabulary, run.task->fingerprint(), note);
    run.step = at.state.step;
  }
  if (!initial.empty())
    load_initial_weights(initial, *run.model, run.task->shape(), vocabulary, note);
  return run;
}

MeasuredStep measure_step(PreparedRun& run, int64_t rows, int64_t batches) {
  return measure_step(*run.model, *run.optimizer, *run.task, run.config, run.step, rows, batches);
}

// The categories at the peak of a step.
MemoryParts parts_at_peak(const PreparedRun& run, double peak) {
  MemoryParts parts = run.memory();
  for (const Parameter& parameter : run.model->parameters())
    parts.gradients += parameter.var.value().bytes();
  parts.activations =
      static_cast<size_t>(std::max(0.0, peak - static_cast<double>(parts.gradients)));
  return parts;
}

// Extrapolates memory and time from steps of fewer rows (not too few: ops work in blocks of rows,
// and partly filled ones would distort the result). If the whole batch then fits and is fast
// enough, steps of it are measured instead. Two micro-batches show the memory that any number
// needs.
void measure(PreparedRun& run, Report& report) {
  const int64_t batch = run.config.batch, batches = std::min<int64_t>(run.config.accumulate, 2);
  measure_step(run, 1, batches);  // to warm up
  MeasuredStep half = measure_step(run, 1, batches), some = half;
  int64_t rows = 1;
  const auto enough = [&] {
    return 2 * rows > batch || (rows >= kTimedRows && rows * run.task->length() >= kTimedTokens) ||
           some.peak > report.limit.bytes / 3 || some.seconds > kMaxSeconds / 20;
  };
  for (; !enough(); rows *= 2) {
    half = some;
    some = measure_step(run, 2 * rows, batches);
  }
  const auto peak = static_cast<double>(some.peak);
  double row_bytes = static_cast<double>(parts_at_peak(run, peak).activations);
  if (rows > 1)
    row_bytes =
        std::max(0.0, 2 * (peak - static_cast<double>(half.peak)) / static_cast<double>(rows));
  const std::string source = rows == 1
                                 ? "from a step of 1 row"
                                 : fmt::format("from steps of {} and {} rows", rows / 2, rows);
  const auto all_rows = static_cast<double>(batch * run.config.accumulate);
  report.memory = {parts_at_peak(run, peak + static_cast<double>(batch - rows) * row_bytes),
                   source};
  report.time = {some.seconds / static_cast<double>(rows * batches) * all_rows, source};
  if (!report.fits() || report.time.seconds * (kTimedSteps + 1) > kMaxSeconds) return;

  MeasuredStep whole = measure_step(run, batch, run.config.accumulate);  // to warm up
  std::vector<double> times;
  for (int64_t i = 0; i < kTimedSteps; ++i) {
    const MeasuredStep again = measure_step(run, batch, run.config.accumulate);
    whole.peak = std::max(whole.peak, again.peak);
    times.push_back(again.seconds);
  }
  report.memory = {parts_at_peak(run, static_cast<double>(whole.peak)),
                   "measured, steps of the whole batch"};
  report.time = {median(times),
                 fmt::format("the median of {} steps of the whole batch", kTimedSteps)};
}

Report make_report(PreparedRun& run) {
  Report report{};
  report.groups = group_parameters(run.model->parameters());
  report.limit = device_allocator().limit();
  report.flops_per_token = flops_per_token(*run.model);
  report.tokens = run.config.batch * run.config.accumulate * run.task->length();
  const MemoryParts saved = run.memory();
  report.checkpoint_bytes = static_cast<int64_t>(saved.parameters + saved.optimizer);
  measure(run, report);
  return report;
}

constexpr Split kSplits[] = {Split::train, Split::val, Split::test};

nlohmann::ordered_json to_json(const PreparedRun& run, const Report& report) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array(), rows;
  for (const ParameterGroup& group : report.groups)
    parameters.push_back({{"name", group.name},
                          {"shape", group.shape.sizes()},
                          {"count", group.count},
                          {"elements", group.count * group.shape.numel()}});
  for (const Split split : kSplits)
    if (run.task->has(split)) rows[split_name(split)] = run.task->rows(split);
  const MemoryParts& parts = report.memory.parts;
  const int64_t remaining = std::max<int64_t>(0, run.config.steps - run.step);
  return {{"attention", label_of(run.model->config().attentions)},
          {"task", run.config.task},
          {"parameters", parameters},
          {"parameter_count", count_elements(run.model->parameters())},
          {"tokens", run.task->vocab_size()},
          {"length", run.task->length()},
          {"rows", rows},
          {"tokens_per_step", report.tokens},
          {"flops_per_token", report.flops_per_token},
          {"flops_per_step", report.flops_per_token * static_cast<double>(report.tokens)},
          {"bytes",
           {{"parameters", parts.parameters},
            {"gradients", parts.gradients},
            {"optimizer", parts.optimizer},
            {"activations", parts.activations},
            {"peak", parts.sum()}}},
          {"bytes_source", report.memory.source},
          {"machine_bytes", report.limit.total},
          {"limit_bytes", report.limit.bytes},
          {"fits", report.fits()},
          {"checkpoint_bytes", report.checkpoint_bytes},
          {"step", run.step},
          {"steps", run.config.steps},
          {"step_s", report.time.seconds},
          {"remaining_s", report.time.seconds * static_cast<double>(remaining)},
          {"time_source", report.time.source}};
}

void print_parameters(const PreparedRun& run, const Report& report) {
  constexpr const char* kRow = "{:<36} {:>14} {:>6} {:>14}\n";
  fmt::print(kRow, "parameters", "shape", "times", "elements");
  for (const ParameterGroup& group : report.groups)
    fmt::print(kRow, group.name, group.shape.str(), group.count, group.count * group.shape.numel());
  fmt::print(kRow, "all", "", "", count_elements(run.model->parameters()));
}

void print_text(const PreparedRun& run, const Report& report) {
  const auto number = [](double x) { return format_count(x); };
  fmt::print("{} on {}: dry run, nothing is written\n", label_of(run.model->config().attentions),
             run.config.task);
  for (const std::string& line : layers_by_attention(run.config)) fmt::print("{}\n", line);
  fmt::print("\n");
  print_parameters(run, report);
  fmt::print("\ndata           {} tokens, length {}; rows:", run.task->vocab_size(),
             run.task->length());
  for (const Split split : kSplits)
    if (run.task->has(split)) fmt::print(" {} {}", split_name(split), run.task->rows(split));
  fmt::print("\nstep           {} tokens ({} rows of {}, {} times)\n", report.tokens,
             run.config.batch, run.task->length(), run.config.accumulate);
  fmt::print("FLOPs          {} a token, {}{:.3g} a step\n", number(report.flops_per_token),
             run.config.skip_blank ? "at most " : "",
             report.flops_per_token * static_cast<double>(report.tokens));
  const MemoryParts& parts = report.memory.parts;
  const auto bytes = [](size_t x) { return format_bytes(static_cast<double>(x)); };
  fmt::print(
      "memory         parameters {}, gradients {}, optimizer {}, activations and workspace {}\n",
      bytes(parts.parameters), bytes(parts.gradients), bytes(parts.optimizer),
      bytes(parts.activations));
  fmt::print("peak           {} in tensors and the batch during a step ({}); {}\n",
             bytes(parts.sum()), report.memory.source, report.limit.text());
  fmt::print("checkpoint     {} each\n", bytes(static_cast<size_t>(report.checkpoint_bytes)));
  const int64_t remaining = std::max<int64_t>(0, run.config.steps - run.step);
  fmt::print(
      "time           {} for {} steps{}: {:.4g} s a step ({}), without validation, samples and "
      "saving\n",
      format_duration(report.time.seconds * static_cast<double>(remaining)), remaining,
      run.step > 0 ? fmt::format(" after step {}", run.step) : "", report.time.seconds,
      report.time.source);
  std::fflush(stdout);
}

}  // namespace

void dry_run(const RunConfig& config, const std::filesystem::path& resumed,
             const std::string& initial, bool json) {
  PreparedRun run = prepare(config, resumed, initial);
  const MemoryBreakdown breakdown([&] { return run.memory(); });
  const Report report = make_report(run);
  if (json) {
    print_json_line(to_json(run, report));
  } else {
    print_text(run, report);
  }
  refuse_too_large(run.config, report.memory.parts, report.limit);
}

}  // namespace linea
