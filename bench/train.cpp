// linea bench train: the trainer's own step on a preset model and random tokens. How many tokens a
// second, how much of the machine's arithmetic that is, where the time goes, and what memory is
// held for.
#include <algorithm>
#include <memory>

#include "autograd/profile.h"
#include "base/system.h"
#include "bench/bench.h"
#include "bench/commands.h"
#include "bench/random_tokens.h"
#include "data/json.h"
#include "nn/optimizer.h"
#include "parallel/ranks.h"
#include "train/flops.h"
#include "train/format.h"
#include "train/run/training_step.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

// Bytes of tensors by what they are for: parameters and buffers; what is held at the end of the
// forward pass beyond those of before it (activations), and of the backward pass (gradients).
// `workspace` is what the peak holds beyond all the others, 0 where it holds less: activations go
// while gradients come.
struct Bytes {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0, peak = 0;
  double sum() const { return parameters + gradients + optimizer + activations + workspace; }
};

struct OpTimes {
  std::string op;
  Profile::Times times;
};

// Times are seconds of all steps together, done plainly; but step_s, the median step as the trainer
// makes it.
struct Trained {
  Bytes bytes;
  double rss = 0, step_s = 0, all_s = 0, optimizer_s = 0, data_s = 0, loss = 0;
  double wait_share = 0;  // mean share of the steps' time that ranks waited for others
  double flops = 0;       // of a token
  int threads = 0;        // of the step that had the fewest
  int64_t parameters = 0;
  std::vector<OpTimes> ops;
  std::string plainly;  // why the device's steps could not be recorded; empty: they were
};

double held() { return static_cast<double>(device_allocator().use().held); }

// A step of the trainer's, watched.
class Step {
 public:
  Step(Model& model, Optimizer& optimizer, WeightAverage* average, const TrainBench& options,
       bool recorded)
      : model_(model),
        config_(options.model.config),
        task_(shape_of(model.config())),
        steps_(options.warmup + options.steps),
        step_(model, optimizer, task_, config_, recorded, &ranks()) {
    step_.average_in(average);
  }

  void run(int64_t number, Trained& result) {
    Profile* profile = Profile::current();
    const auto lap = [&] { return profile == nullptr ? 0.0 : profile->restart(); };
    double before = 0;
    step_.watch({[&] {
                   result.data_s += lap();
                   before = held();
                 },
                 [&] { result.bytes.activations = held() - before; },
                 [&] {
                   result.bytes.gradients = held() - before;
                   lap();
                 }});
    lap();
    result.threads = std::min(result.threads, step_.threads());
    model_.before_step(number, steps_);
    result.loss =
        step_.run(number, learning_rate_at(number, steps_, 0, config_.lr, config_.min_lr)).loss;
    result.optimizer_s += lap();
  }

  const std::string& not_captured_reason() const { return step_.not_captured_reason(); }

 private:
  Model& model_;
  const RunConfig& config_;
  RandomTokens task_;
  int64_t steps_;
  TrainingStep step_;
};

// Seconds of steps that a device does by what it has recorded, as the trainer has it do them;
// `plainly` becomes the reason where it could not.
std::vector<double> recorded_times(Model& model, Optimizer& optimizer, WeightAverage* average,
                                   const TrainBench& options, std::string& plainly) {
  // That of the plain steps: what is recorded has memory of its own.
  device_allocator().release_cache();
  Step step(model, optimizer, average, options, true);
  Trained unused;
  std::vector<double> times;
  for (int64_t i = 0; i < options.warmup + options.steps; ++i) {
    const Stopwatch watch;
    step.run(i, unused);
    if (i >= options.warmup) times.push_back(watch.seconds());
  }
  plainly = step.not_captured_reason();
  return times;
}

Trained train(const ModelConfig& config, const TrainBench& options) {
  Trained result;
  const size_t rss = peak_resident_bytes();
  const double empty = held();
  const std::unique_ptr<Model> owned = make_model(config);
  Model& model = *owned;
  result.bytes.parameters = held() - empty;
  Optimizer optimizer(optimizer_config(options.model.config), model.parameters());
  std::unique_ptr<WeightAverage> average;
  if (const double decay = options.model.config.ema; decay > 0)
    average = std::make_unique<WeightAverage>(model, decay);
  result.bytes.optimizer = held() - empty - result.bytes.parameters;
  result.parameters = count_elements(model.parameters());
  result.flops = flops_per_token(model);
  Step plain(model, optimizer, average.get(), options, false);
  for (int64_t i = 0; i < options.warmup; ++i) plain.run(i, result);
  device_allocator().reset_peak();
  result.threads = context().threads;
  std::vector<double> times;
  const double waited = ranks().waited_seconds();
  {
    const Profile profile;
    for (int64_t i = 0; i < options.steps; ++i) {
      const Stopwatch watch;
      plain.run(options.warmup + i, result);
      times.push_back(watch.seconds());
      result.all_s += times.back();
    }
    for (const auto& [op, op_times] : profile.ops()) result.ops.push_back({op, op_times});
    for (const double share : ranks().all_gather((ranks().waited_seconds() - waited) / result.all_s,
                                                 "the time of waiting"))
      result.wait_share += share / ranks().size();
  }
  if (context().device.kind != DeviceKind::cpu)
    times = recorded_times(model, optimizer, average.get(), options, result.plainly);
  result.step_s = median(times);
  Bytes& bytes = result.bytes;
  bytes.peak = static_cast<double>(device_allocator().use().peak) - empty;
  bytes.workspace = std::max(0.0, bytes.peak - bytes.sum());
  result.rss = static_cast<double>(peak_resident_bytes() - rss);
  const auto all = [](const OpTimes& op) { return op.times.forward + op.times.backward; };
  std::sort(result.ops.begin(), result.ops.end(),
            [&](const auto& a, const auto& b) { return all(a) > all(b); });
  return result;
}

std::vector<std::pair<const char*, double>> kinds(const Bytes& bytes) {
  return {{"parameters", bytes.parameters},
          {"gradients", bytes.gradients},
          {"optimizer", bytes.optimizer},
          {"activations", bytes.activations},
          {"workspace", bytes.workspace},
          {"sum", bytes.sum()},
          {"peak", bytes.peak}};
}

void print_json(const ModelConfig& model, const TrainBench& options, const Machine& machine,
                const Trained& trained, double tokens, double gflops) {
  const auto of_step = [&](double seconds) {
    return 1e3 * seconds / static_cast<double>(options.steps);
  };
  nlohmann::ordered_json bytes, ops = nlohmann::ordered_json::array();
  for (const auto& [kind, value] : kinds(trained.bytes)) bytes[kind] = value;
  for (const auto& [op, times] : trained.ops)
    ops.push_back({{"op", op},
                   {"forward_ms", of_step(times.forward)},
                   {"backward_ms", of_step(times.backward)},
                   {"share", (times.forward + times.backward) / trained.all_s}});
  nlohmann::ordered_json line = {{"preset", options.model.preset},
                                 {"attention", label_of(model.attentions)},
                                 {"tokens_per_s", tokens},
                                 {"step_ms", 1e3 * trained.step_s},
                                 {"min_threads", trained.threads},
                                 {"model_gflops", gflops},
                                 {"sgemm_gflops", machine.sgemm_gflops},
                                 {"fraction_of_sgemm", gflops / machine.sgemm_gflops},
                                 {"peak_rss_delta_bytes", trained.rss},
                                 {"bytes", bytes},
                                 {"ops", ops},
                                 {"optimizer_ms", of_step(trained.optimizer_s)},
                                 {"data_ms", of_step(trained.data_s)},
                                 {"loss", trained.loss}};
  if (!trained.plainly.empty()) line["not_captured"] = trained.plainly;
  if (!ranks().alone()) {
    line["ranks"] = ranks().size();
    line["sequence_ranks"] = options.model.config.sequence_ranks;
    line["wait_share"] = trained.wait_share;
  }
  print_json_line(json_of(machine));
  print_json_line(line);
}

void print_text(const ModelConfig& model, const TrainBench& options, const Machine& machine,
                const Trained& trained, double tokens, double gflops) {
  fmt::print("{}{}: {}\n{} parameters, batch {}, {}\n\n", summary_of(machine), options.model.preset,
             summary_of(model), format_count(static_cast<double>(trained.parameters)),
             options.model.config.batch, options.model.config.dtype);
  fmt::print(
      "{:.0f} tokens/s, {:.2f} ms per step (median of {} after {} warm-up steps), loss {:.4f}\n",
      tokens, 1e3 * trained.step_s, options.steps, options.warmup, trained.loss);
  if (!ranks().alone())
    fmt::print("{} ranks, {} on this host, which wait {:.1f}% of the time\n", ranks().size(),
               ranks().host().ranks, 100 * trained.wait_share);
  if (!trained.plainly.empty()) fmt::print("steps could not be captured: {}\n", trained.plainly);
  if (trained.threads < machine.threads)
    fmt::print("some steps took {} of {} threads: other programs use the cores\n", trained.threads,
               machine.threads);
  fmt::print("{:.1f} GFLOP/s of the model, {:.0f}% of {}\n\n", gflops,
             100 * gflops / machine.sgemm_gflops,
             machine.device == "cpu" ? "SGEMM" : "the products' rate");
  for (const auto& [kind, value] : kinds(trained.bytes))
    fmt::print("{:<16} {:>10.2f} MiB\n", kind, value / 1048576);
  fmt::print("{:<16} {:>10.2f} MiB, growth of the process\n\n", "peak RSS", trained.rss / 1048576);
  fmt::print("{:<20} {:>12} {:>12} {:>10}\n", "per step", "forward ms", "backward ms", "share %");
  const auto row = [&](const std::string& name, double forward, double backward) {
    const double scale = 1e3 / static_cast<double>(options.steps);
    fmt::print("{:<20} {:>12.3f} {:>12.3f} {:>10.1f}\n", name, scale * forward, scale * backward,
               100 * (forward + backward) / trained.all_s);
  };
  Profile::Times sum;
  for (const auto& [op, times] : trained.ops) {
    row(op, times.forward, times.backward);
    sum.forward += times.forward;
    sum.backward += times.backward;
  }
  row("all ops", sum.forward, sum.backward);
  row("optimizer", trained.optimizer_s, 0);
  row("data", trained.data_s, 0);
}

}  // namespace

// SGEMM comes last: its matrices are no memory of the training.
void run(TrainBench options) {
  require(options.steps >= 1 && options.warmup >= 0,
          "`steps` is {} and `warmup` {}; at least 1 and 0", options.steps, options.warmup);
  const ModelConfig model = chosen_model(options.model);
  const Trained trained = train(model, options);
  const double tokens =
      static_cast<double>(options.model.config.batch * model.length) / trained.step_s;
  const double gflops = tokens * trained.flops / 1e9;
  const auto print = options.json ? print_json : print_text;
  print(model, options, measure_machine(0.5, options.model.config.dtype), trained, tokens, gflops);
}

}  // namespace linea::bench
