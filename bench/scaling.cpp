// linea bench scaling: the trainer's own step by one rank, by all that share its rows, and by all with as many
// rows each, in turn; the transport's times; and what the model of scaling_model.h makes of them for more
// ranks and other networks. Those are computed, not measured.
#include <cmath>
#include <memory>
#include <numeric>

#include "autograd/profile.h"
#include "base/settings.h"
#include "bench/bench.h"
#include "bench/commands.h"
#include "bench/network.h"
#include "bench/random_tokens.h"
#include "bench/scaling_model.h"
#include "data/json.h"
#include "nn/optimizer.h"
#include "parallel/ranks.h"
#include "train/run/training_step.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

constexpr int64_t kRanksComputed[] = {8, 64, 512, 4096};
// One sequence of so many positions, on so many ranks.
constexpr struct {
  int64_t length, ranks;
} kLongSequences[] = {{1'000'000, 64}, {10'000'000, 512}, {100'000'000, 4096}};

struct Times {
  std::vector<double> all;
  double middle() const { return median(all); }
  double low() const { return *std::min_element(all.begin(), all.end()); }
  double high() const { return *std::max_element(all.begin(), all.end()); }
};

// Steps of one kind on the common model; without ranks a rank has all rows.
class Steps {
 public:
  Steps(Model& model, Optimizer& optimizer, const Task& task, RunConfig config, Ranks* shared)
      : config_(std::move(config)), model_(model) {
    if (shared == nullptr) config_.sequence_ranks = 1;
    step_ = std::make_unique<TrainingStep>(model, optimizer, task, config_, false, shared);
  }

  double run(int64_t number) {
    model_.before_step(number, config_.steps);
    watch_ = Stopwatch();
    step_->run(number, config_.lr);
    return watch_.seconds();
  }

  // The sums of a step and when they begin.
  void record(std::vector<Bucket>& buckets) {
    step_->watch_sums([this, &buckets](int64_t floats) {
      buckets.push_back({static_cast<double>(floats), watch_.seconds()});
    });
  }

 private:
  RunConfig config_;
  Model& model_;
  std::unique_ptr<TrainingStep> step_;
  Stopwatch watch_;
};

struct Measured {
  Times alone, strong, weak, apart;
  std::vector<Bucket> buckets;
  double sigma = 0, gamma = 0;
  Network network;
  // A step of rank 0 alone, where the states of the attention are combined by a scan.
  struct Alone {
    double attention = 0, activations = 0;  // seconds; bytes
    int64_t positions = 0;                  // of all its sequences
    std::vector<double> state;              // bytes of one sequence, by layer; empty: no scan
  } alone_step;
};

int64_t num_rows(const ScalingBench& options) {
  return options.model.config.batch * options.model.config.accumulate;
}

// The states of rules with a denominator, where the attention takes parts of sequences at all.
bool all_scan(const Model& model) {
  const auto& all = model.attentions();
  return context().device.kind == DeviceKind::cpu && model.config().causal &&
         model.config().second_vocab_size == 0 &&
         std::all_of(all.begin(), all.end(), [](const auto& attention) {
           const AttentionTraits traits = attention->traits();
           return traits.takes_parts && traits.denominators && !traits.straight_through;
         });
}

Measured::Alone measure_alone(const Model& model, Steps& alone, int64_t step, int64_t rows) {
  Measured::Alone result;
  if (!all_scan(model) || !ranks().is_main()) return result;
  const auto held = static_cast<double>(device_allocator().use().held);
  device_allocator().reset_peak();
  const Profile profile;
  alone.run(step);
  const auto gradients = static_cast<double>(count_elements(model.parameters()) * sizeof(float));
  result.activations = static_cast<double>(device_allocator().use().peak) - held - gradients;
  for (const auto& [op, times] : profile.ops())
    if (op == "linear_attention") result.attention += times.forward + times.backward;
  result.positions = rows * model.config().length;
  for (const auto& attention : model.attentions())
    result.state.push_back(
        static_cast<double>(attention->start(1, model.config().stored)->bytes()));
  return result;
}

double sum_seconds(int64_t floats) {
  std::vector<float> x(static_cast<size_t>(floats), 1.0f);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    slowest(0);
    const Stopwatch watch;
    ranks().start_sum(x.data(), floats, "the time of a sum");
    ranks().finish();
    times.push_back(watch.seconds());
  }
  return slowest(median(times));
}

void measure_transport(Measured& result) {
  result.network = measure_network();
  const int64_t floats = int64_t{1} << 20;
  const double without =
      ScalingModel().sum_seconds(static_cast<double>(floats), ranks().size(), result.network);
  result.gamma = std::max(0.0, sum_seconds(floats) - without) / static_cast<double>(floats);
}

double deviation(const std::vector<double>& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return x.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(x.size() - 1)) / mean;
}

Measured measure(const ModelConfig& model_config, const ScalingBench& options) {
  const RunConfig& config = options.model.config;
  const std::unique_ptr<Model> model = make_model(model_config);
  Optimizer optimizer(optimizer_config(config), model->parameters());
  const RandomTokens task(shape_of(model_config));
  RunConfig larger = config;
  larger.batch *= ranks().size();
  Steps alone(*model, optimizer, task, config, nullptr),
      strong(*model, optimizer, task, config, &ranks()),
      weak(*model, optimizer, task, larger, &ranks());
  Measured result;
  strong.record(result.buckets);
  for (int64_t round = -1; round < options.repeats; ++round) {  // the first is not counted
    result.buckets.clear();
    const double of_main = slowest(ranks().is_main() ? alone.run(round + 1) : 0),
                 shared = slowest(strong.run(round + 1)), more = slowest(weak.run(round + 1)),
                 own = alone.run(round + 1), apart = slowest(own);
    if (round < 0) continue;
    result.alone.all.push_back(of_main);
    result.strong.all.push_back(shared);
    result.weak.all.push_back(more);
    result.apart.all.push_back(apart);
  }
  result.sigma = deviation(result.apart.all);
  result.alone_step = measure_alone(*model, alone, options.repeats + 1, num_rows(options));
  slowest(0);
  measure_transport(result);
  return result;
}

// What a network's row of the tables has.
struct Computed {
  std::string network;
  std::vector<double> weak, strong;  // efficiencies, by kRanksComputed; NaN: fewer rows than ranks
  // By kLongSequences: of a step, seconds, of which the messages of the scans, the share that one
  // rank's speed would take, and GB of a rank's activations.
  struct Long {
    double step, messages, efficiency, gigabytes;
  };
  std::vector<Long> sequences;
};

std::vector<std::pair<std::string, Network>> networks(const std::string& given) {
  if (given.empty())
    return {{"10 GbE: 30 us, 1.1 GB/s", {30e-6, 1.1e9}}, {"100 Gb: 2 us, 11 GB/s", {2e-6, 11e9}}};
  const size_t comma = given.find(',');
  require(comma != std::string::npos,
          "`network` is '{}'; it must be microseconds and GB/s, such as 30,1.1", given);
  const double us = parse_number<double>("network", given.substr(0, comma)),
               gb = parse_number<double>("network", given.substr(comma + 1));
  require(us >= 0 && gb > 0, "`network` is '{}'; times are at least 0 and rates above 0", given);
  return {{fmt::format("{} us, {} GB/s", us, gb), {us * 1e-6, gb * 1e9}}};
}

// The part of a step's positions that the rank with most has.
double largest_share(const ScalingBench& options, int64_t W) {
  const int64_t rows = num_rows(options), parts = options.model.config.sequence_ranks,
                groups = std::max<int64_t>(1, W / parts);
  return static_cast<double>((rows + groups - 1) / groups) / static_cast<double>(rows * parts);
}

std::vector<Computed::Long> compute_long(const Measured& measured, const ScalingModel& model,
                                         const Network& network) {
  const Measured::Alone& alone = measured.alone_step;
  std::vector<Computed::Long> all;
  if (alone.state.empty()) return all;
  for (const auto& [length, P] : kLongSequences) {
    const double part = static_cast<double>(length / P) / static_cast<double>(alone.positions),
                 own = part * measured.alone.middle(),
                 scan = ScalingModel::scan_seconds(part * alone.attention, alone.state, P, network),
                 step = model.step_seconds(own + scan, own / measured.strong.middle(), P, network);
    all.push_back({step, ScalingModel::scan_seconds(0, alone.state, P, network), own / step,
                   part * alone.activations / 1e9});
  }
  return all;
}

std::vector<Computed> compute(const ScalingBench& options, const Measured& measured,
                              const ScalingModel& model) {
  const int64_t rows = num_rows(options);
  // The buckets were measured in a step of 1 / W of the rows.
  const double whole = measured.alone.middle(), own = measured.strong.middle();
  std::vector<Computed> all;
  for (const auto& [name, network] : networks(options.network)) {
    Computed computed{name, {}, {}, compute_long(measured, model, network)};
    for (const int64_t W : kRanksComputed) {
      computed.weak.push_back(whole / model.step_seconds(whole, whole / own, W, network));
      const double part = whole * largest_share(options, W);
      computed.strong.push_back(W > rows
                                    ? std::nan("")
                                    : whole / (static_cast<double>(W) *
                                               model.step_seconds(part, part / own, W, network)));
    }
    all.push_back(computed);
  }
  return all;
}

void write_json(const ScalingBench& options, const Measured& measured, double foretold,
                const std::vector<Computed>& computed) {
  const auto times = [](const Times& of) {
    return nlohmann::ordered_json{
        {"median_s", of.middle()}, {"min_s", of.low()}, {"max_s", of.high()}};
  };
  nlohmann::ordered_json line = {{"preset", options.model.preset},
                                 {"ranks", ranks().size()},
                                 {"hosts", ranks().hosts()},
                                 {"sequence_ranks", options.model.config.sequence_ranks},
                                 {"threads", context().threads},
                                 {"alone", times(measured.alone)},
                                 {"shared", times(measured.strong)},
                                 {"as_many_rows_each", times(measured.weak)},
                                 {"without_exchange", times(measured.apart)},
                                 {"shared_computed_s", foretold},
                                 {"alpha_s", measured.network.alpha},
                                 {"beta_bytes_per_s", measured.network.beta},
                                 {"gamma_s", measured.gamma},
                                 {"sigma", measured.sigma}};
  for (const Bucket& bucket : measured.buckets)
    line["buckets"].push_back({{"floats", bucket.floats}, {"ready_s", bucket.ready}});
  for (const Computed& one : computed) {
    nlohmann::ordered_json of = {
        {"network", one.network}, {"ranks", kRanksComputed}, {"weak", one.weak}};
    for (const double x : one.strong)
      of["strong"].push_back(std::isnan(x) ? nlohmann::ordered_json() : nlohmann::ordered_json(x));
    for (size_t i = 0; i < one.sequences.size(); ++i)
      of["sequences"].push_back({{"positions", kLongSequences[i].length},
                                 {"ranks", kLongSequences[i].ranks},
                                 {"step_s", one.sequences[i].step},
                                 {"messages_s", one.sequences[i].messages},
                                 {"efficiency", one.sequences[i].efficiency},
                                 {"activations_gb", one.sequences[i].gigabytes}});
    line["computed"].push_back(of);
  }
  print_json_line(line);
}

void write_text(const ModelConfig& model, const ScalingBench& options, const Measured& measured,
                double foretold, const std::vector<Computed>& computed) {
  const auto W = static_cast<double>(ranks().size());
  fmt::print("{}: {}, batch {}\n{} ranks on {} host{}, {} thread{} each, {}\n\n",
             options.model.preset, summary_of(model), options.model.config.batch, ranks().size(),
             ranks().hosts(), ranks().hosts() == 1 ? "" : "s", context().threads,
             context().threads == 1 ? "" : "s", ranks().library());
  const auto row = [](const char* name, const Times& of) {
    fmt::print("{:<52} {:>10.1f} {:>10.1f} {:>10.1f}\n", name, 1e3 * of.middle(), 1e3 * of.low(),
               1e3 * of.high());
  };
  fmt::print("{:<52} {:>10} {:>10} {:>10}\n", "ms a step", "median", "least", "most");
  row("rank 0 alone", measured.alone);
  row("all ranks share its work", measured.strong);
  row("all ranks, as many rows each", measured.weak);
  row("the same without exchange", measured.apart);
  const double alone = measured.alone.middle();
  fmt::print(
      "\nefficiency: strong {:.3f}, weak {:.3f}, of which the cores' {:.3f}, of messages {:.3f}\n",
      alone / (W * measured.strong.middle()), alone / measured.weak.middle(),
      alone / measured.apart.middle(), measured.apart.middle() / measured.weak.middle());
  double floats = 0;
  for (const Bucket& bucket : measured.buckets) floats += bucket.floats;
  fmt::print(
      "transport: {:.1f} us a message, {:.2f} GB/s; {:.1f} MB of gradients in {} sums; a step's "
      "time "
      "varies by {:.1f}%\n",
      1e6 * measured.network.alpha, measured.network.beta / 1e9, 4e-6 * floats,
      measured.buckets.size(), 100 * measured.sigma);
  fmt::print("the shared step is {:.1f} ms by the model, {:+.1f}% of what was measured\n\n",
             1e3 * foretold, 100 * (foretold / measured.strong.middle() - 1));
  fmt::print("efficiency of more ranks, one a host: computed, not measured\n{:<34}", "");
  for (const int64_t ranks_computed : kRanksComputed) fmt::print(" {:>8}", ranks_computed);
  fmt::print("\n");
  for (const Computed& one : computed)
    for (const bool weak : {true, false}) {
      fmt::print("{:<34}", one.network + (weak ? ", weak" : ", strong"));
      for (const double x : weak ? one.weak : one.strong)
        fmt::print(" {:>8}", std::isnan(x) ? "-" : fmt::format("{:.2f}", x));
      fmt::print("\n");
    }
  const int64_t rows = num_rows(options);
  fmt::print(
      "weak: as many rows for each rank; strong: the {} rows of a step are shared, by as many "
      "ranks at "
      "most; --sequence-ranks shares their positions\n",
      rows);
  if (computed.front().sequences.empty()) return;
  fmt::print("\none sequence, its states combined by a scan: computed, not measured\n{:<34}", "");
  fmt::print(" {:>11} {:>6} {:>8} {:>12} {:>11} {:>16}\n", "positions", "ranks", "a step s",
             "messages ms", "efficiency", "activations GB");
  for (const Computed& one : computed)
    for (size_t i = 0; i < one.sequences.size(); ++i) {
      const Computed::Long& of = one.sequences[i];
      fmt::print("{:<34} {:>11} {:>6} {:>8.2f} {:>12.1f} {:>11.2f} {:>16.2f}\n", one.network,
                 kLongSequences[i].length, kLongSequences[i].ranks, of.step, 1e3 * of.messages,
                 of.efficiency, of.gigabytes);
    }
}

}  // namespace

void run(ScalingBench options) {
  require(!ranks().alone(),
          "linea bench scaling compares several processes: start it by mpirun -n 2, or more");
  require(options.repeats >= 1, "`repeats` is {}; at least 1", options.repeats);
  networks(options.network);
  const ModelConfig model = chosen_model(options.model);
  const Measured measured = measure(model, options);
  const ScalingModel scaling{measured.buckets, measured.gamma, measured.sigma};
  // A rank computes its share of what all compute at once without exchange, the slowest most rows.
  const int64_t W = ranks().size();
  const double part = std::max(measured.apart.middle() / static_cast<double>(W),
                               measured.alone.middle() * largest_share(options, W)),
               foretold =
                   scaling.step_seconds(part, part / measured.strong.middle(), W, measured.network);
  if (!ranks().is_main()) return;
  const std::vector<Computed> computed = compute(options, measured, scaling);
  if (options.json) return write_json(options, measured, foretold, computed);
  write_text(model, options, measured, foretold, computed);
}

}  // namespace linea::bench
