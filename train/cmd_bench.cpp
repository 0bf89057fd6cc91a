// linea bench: speeds, each beside the rate of this machine's BLAS in the same run.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "autograd/gradcheck.h"
#include "nn/attention.h"
#include "tensor/ops.h"
#include "train/commands.h"
#include "train/config.h"
#include "train/progress.h"

namespace linea {
namespace {

struct BenchOptions {
  std::vector<std::string> attentions = {"softmax", "linear", "performer"};
  std::vector<int64_t> lengths = {512, 1024, 2048, 4096, 8192, 16384};
  AttentionOptions attention;
  int64_t batch = 1, heads = 4, key_size = 64, threads = 0;
  double seconds = 0.5;  // at least, a measurement
  bool json = false;
};

// The median of the times of `work`, called at least three times and for at least `seconds`.
double median_seconds(double seconds, const std::function<void()>& work) {
  std::vector<double> times;
  const Stopwatch all;
  while (times.size() < 3 || (all.seconds() < seconds && times.size() < 1000)) {
    const Stopwatch one;
    work();
    times.push_back(one.seconds());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// GFLOP/s of a square product of 2048, in float.
double sgemm_rate(double seconds) {
  constexpr int64_t kSize = 2048;
  const Tensor a = random_tensor({kSize, kSize}, 1, 1, 0, DType::f32);
  const Tensor b = random_tensor({kSize, kSize}, 2, 1, 0, DType::f32);
  ops::matmul(a, b);
  const double time = median_seconds(seconds, [&] { ops::matmul(a, b); });
  return 2.0 * kSize * kSize * kSize / time / 1e9;
}

// Seconds and extra bytes of a sequence; seconds of a sampled token, the mean over as many positions.
struct Measured {
  int64_t length;
  double forward_s, both_s, step_s, forward_bytes, both_bytes;
};

// Bytes at the peak of `work` beyond those held before it.
double extra_bytes(const std::function<void()>& work) {
  const size_t before = cpu_memory().held;
  reset_cpu_peak();
  work();
  return static_cast<double>(cpu_memory().peak - before);
}

Measured measure(const AttentionOptions& chosen, const BenchOptions& options, int64_t length) {
  const std::unique_ptr<Attention> attention = make_attention(chosen);
  const Shape shape{options.batch, options.heads, length, options.key_size};
  std::vector<Var> inputs;
  for (uint32_t lane = 0; lane < 3; ++lane)
    inputs.emplace_back(random_tensor(shape, lane, 1.0, 0.0, DType::f32), true);
  const Tensor seed = random_tensor(shape, 9, 1.0, 0.0, DType::f32);
  AttentionInputs taken{inputs[0], inputs[1], inputs[2], Var()};
  if (attention->gated()) {
    const Tensor half = Tensor::full({options.batch, options.heads, length}, DType::f32, 0.5);
    taken.gate = inputs.emplace_back(half, true);
  }
  const auto forward = [&] {
    const NoGrad no_grad;
    attention->forward(taken, {});
  };
  const auto both = [&] {
    backward(attention->forward(taken, {}), seed);
    for (Var& input : inputs) input.clear_grad();
  };
  const double results = static_cast<double>(seed.bytes());  // y; and dq, dk, dv
  Measured measured{};
  measured.length = length;
  measured.forward_bytes = extra_bytes(forward) - results;
  measured.both_bytes = extra_bytes(both) - 4 * results;
  measured.forward_s = median_seconds(options.seconds, forward);
  measured.both_s = median_seconds(options.seconds, both);
  return measured;
}

// The recurrent form from position 0 on: for each length the mean seconds of a position up to it.
void measure_steps(const AttentionOptions& chosen, const BenchOptions& options, std::vector<Measured>& rows) {
  const std::unique_ptr<Attention> attention = make_attention(chosen);
  const Shape shape{options.batch, options.heads, options.key_size};
  const auto normal = [&](uint32_t lane) { return random_tensor(shape, lane, 1.0, 0.0, DType::f32); };
  AttentionStep in{normal(1), normal(2), normal(3), Tensor()};
  if (attention->gated()) in.gate = Tensor::full({options.batch, options.heads}, DType::f32, 0.5);
  const std::unique_ptr<AttentionState> state = attention->start(options.batch, DType::f32);
  int64_t position = 0;
  const Stopwatch watch;
  for (Measured& row : rows) {
    for (; position < row.length; ++position) attention->step(*state, in);
    row.step_s = watch.seconds() / static_cast<double>(row.length);
  }
}

// From which of the measured lengths on `one` takes less time than `other`, in words.
std::string crossover(const std::vector<Measured>& one, const std::vector<Measured>& other,
                      double Measured::*time) {
  size_t from = one.size();
  while (from > 0 && one[from - 1].*time < other[from - 1].*time) --from;
  if (from == one.size()) return fmt::format("not up to N = {}", one.back().length);
  return fmt::format("from N = {}{}", one[from].length, from == 0 ? " or less" : "");
}

using Table = std::vector<std::pair<std::string, std::vector<Measured>>>;

void print_crossovers(const Table& table, bool json) {
  if (!json)
    fmt::print(
        "\nfaster than                                          forward              fwd+bwd              a "
        "sampled token\n");
  for (const auto& [name, rows] : table)
    for (const auto& [other, others] : table) {
      if (name == other || other.rfind("performer", 0) == 0 || name == "softmax") continue;
      const std::string forward = crossover(rows, others, &Measured::forward_s);
      const std::string both = crossover(rows, others, &Measured::both_s);
      const std::string step = crossover(rows, others, &Measured::step_s);
      if (json) {
        const nlohmann::ordered_json line = {
            {"faster", name}, {"than", other}, {"forward", forward}, {"forward_backward", both}, {"step", step}};
        std::printf("%s\n", line.dump().c_str());
      } else {
        fmt::print("{:<52} {:<20} {:<20} {}\n", name + " than " + other, forward, both, step);
      }
    }
}

void bench_attention(const BenchOptions& options) {
  if (options.threads != 0) set_threads(static_cast<int>(options.threads));
  const BlasInfo blas = blas_info();
  const double rate = sgemm_rate(options.seconds);
  if (options.json) {
    const nlohmann::ordered_json line = {{"blas", blas.version},    {"kernel", blas.kernel},
                                         {"flavour", blas.flavour}, {"threads", context().threads},
                                         {"sgemm_gflops", rate},    {"batch", options.batch},
                                         {"heads", options.heads},  {"key_size", options.key_size}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("%s\nkernels %s, %s, %d threads: SGEMM %.1f GFLOP/s\n", blas.version, blas.kernel, blas.flavour,
                context().threads, rate);
    std::printf("causal, float32, B %lld H %lld D = M = %lld; extra bytes are beyond inputs and results\n\n",
                static_cast<long long>(options.batch), static_cast<long long>(options.heads),
                static_cast<long long>(options.key_size));
    fmt::print("{:<42} {:>7} {:>11} {:>11} {:>9} {:>13} {:>14} {:>13}\n", "attention", "N", "forward ms",
               "fwd+bwd ms", "us/token", "us/step", "extra MiB fwd", "extra MiB f+b");
  }
  std::vector<int64_t> lengths = options.lengths;
  std::sort(lengths.begin(), lengths.end());
  Table table;
  for (const std::string& name : options.attentions) {
    AttentionOptions chosen = options.attention;
    chosen.attention = name;
    if (name != "linear") chosen.rule = "sum";
    if (name == "softmax" || name == "vq" || name == "soft-vq") chosen.feature.clear();
    chosen.heads = options.heads;
    chosen.key_size = chosen.value_size = options.key_size;
    std::vector<Measured> rows;
    for (const int64_t length : lengths) {
      require(length >= 1, "--lengths has {}; each must be at least 1", length);
      rows.push_back(measure(chosen, options, length));
    }
    measure_steps(chosen, options, rows);
    table.emplace_back(label_of(chosen), rows);
    for (const Measured& m : rows) {
      if (options.json) {
        const nlohmann::ordered_json line = {
            {"attention", label_of(chosen)},         {"length", m.length}, {"forward_s", m.forward_s},
            {"forward_backward_s", m.both_s},        {"step_s", m.step_s}, {"forward_bytes", m.forward_bytes},
            {"forward_backward_bytes", m.both_bytes}};
        std::printf("%s\n", line.dump().c_str());
      } else {
        fmt::print("{:<42} {:>7} {:>11.2f} {:>11.2f} {:>9.3f} {:>13.2f} {:>14.2f} {:>13.2f}\n", label_of(chosen),
                   m.length, 1e3 * m.forward_s, 1e3 * m.both_s,
                   1e6 * m.both_s / static_cast<double>(m.length * options.batch), 1e6 * m.step_s,
                   m.forward_bytes / 1048576.0, m.both_bytes / 1048576.0);
      }
      std::fflush(stdout);
    }
  }
  print_crossovers(table, options.json);
}

}  // namespace

void add_bench(CLI::App& program, int& exit_code) {
  CLI::App* verb = program.add_subcommand("bench", "measure speed and memory");
  verb->require_subcommand(1);
  CLI::App* what = verb->add_subcommand("attention", "one attention, forward and backward, by length");
  const auto options = std::make_shared<BenchOptions>();
  what->add_option("--attention", options->attentions, "comma-separated names")
      ->delimiter(',')
      ->capture_default_str();
  what->add_option("--lengths", options->lengths, "comma-separated numbers")
      ->delimiter(',')
      ->capture_default_str();
  what->add_option("--feature", options->attention.feature,
                   "of linear or performer; of the others it has no meaning");
  what->add_option("--rule", options->attention.rule, "of linear: sum, gated or delta")->capture_default_str();
  what->add_option("--nu", options->attention.nu, "of dpfp")->capture_default_str();
  what->add_option("--features", options->attention.features, "of performer: rows of omega")
      ->capture_default_str();
  what->add_option("--codes", options->attention.codes, "of vq and soft-vq")->capture_default_str();
  what->add_option("--batch", options->batch, "sequences")->capture_default_str();
  what->add_option("--heads", options->heads, "heads")->capture_default_str();
  what->add_option("--key-size", options->key_size, "D = M")->capture_default_str();
  what->add_option("--segment", options->attention.segment, "positions a tile; 0: chosen")->capture_default_str();
  what->add_option("--chunk", options->attention.chunk, "rows a matrix product; 0: chosen")->capture_default_str();
  what->add_option("--seconds", options->seconds, "at least, a measurement")->capture_default_str();
  what->add_option("--threads", options->threads, "processor threads; 0: all cores");
  what->add_flag("--json", options->json, "one JSON object a line");
  what->callback([options, &exit_code] {
    bench_attention(*options);
    exit_code = 0;
  });
}

}  // namespace linea
