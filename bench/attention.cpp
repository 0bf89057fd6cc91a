// linea bench attention: one attention by length, forward, backward and step by step, and who is
// faster than whom.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "autograd/gradcheck.h"
#include "bench/bench.h"
#include "bench/commands.h"
#include "data/chart.h"
#include "data/files.h"
#include "data/json.h"
#include "tensor/backend.h"
#include "tensor/ops.h"
#include "train/machine.h"
#include "train/record/table.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

// Seconds and extra bytes of a sequence; GFLOP/s (Attention::flops); seconds of a sampled token, the
// mean over as many positions.
struct Measured {
  int64_t length;
  double forward_s, both_s, step_s, forward_bytes, both_bytes;
  double forward_gflops, gflops;
};

// Normal numbers; the first million, repeated, where there are more: making them takes longer than
// what is measured.
Tensor normal_tensor(const Shape& shape, uint32_t stream_id, DType dtype) {
  constexpr int64_t kDistinct = 1000003;  // prime: no two heads have the same rows
  const int64_t numel = shape.numel(), distinct = std::min(numel, kDistinct);
  const std::vector<float> some =
      random_tensor({distinct}, stream_id, 1.0, 0.0, DType::f32).to_vector<float>();
  std::vector<float> values(static_cast<size_t>(numel));
  for (int64_t first = 0; first < numel; first += distinct)
    std::copy_n(some.begin(), std::min(distinct, numel - first), values.begin() + first);
  return ops::cast(Tensor::from(values, shape), dtype);
}

Measured measure(AttentionOptions chosen, const AttentionBench& options, int64_t length) {
  chosen.length = length;
  const std::unique_ptr<Attention> attention = make_attention(chosen);
  const AttentionMask mask{attention->traits().not_causal.empty(), {}};
  const Shape shape{options.batch, options.heads, length, options.key_size};
  const bool halves =
      options.dtype == "bf16" && !rounds_on_cpu() && attention->traits().bf16_inputs;
  const DType dtype = halves ? DType::bf16 : DType::f32;
  std::vector<Var> inputs;
  for (uint32_t stream_id = 0; stream_id < 3; ++stream_id)
    inputs.emplace_back(normal_tensor(shape, stream_id, dtype), true);
  const Tensor seed = normal_tensor(shape, 9, dtype);
  AttentionInputs taken{inputs[0], inputs[1], inputs[2], Var()};
  set_constant_gates(taken, *attention, {options.batch, options.heads, length}, 0.5, DType::f32,
                     true);
  if (taken.gate.defined()) inputs.push_back(taken.gate);
  const auto forward = [&] {
    const NoGrad no_grad;
    attention->forward(taken, mask);
  };
  const auto both = [&] {
    backward(attention->forward(taken, mask), seed);
    for (Var& input : inputs) input.clear_grad();
  };
  const double results = static_cast<double>(seed.bytes());  // y; and dq, dk, dv
  Measured measured{};
  measured.length = length;
  measured.forward_bytes = extra_bytes(forward) - results;
  measured.both_bytes = extra_bytes(both) - 4 * results;
  measured.forward_s = median_seconds(options.seconds, forward);
  measured.both_s = median_seconds(options.seconds, both);
  const AttentionFlops count = attention->flops(length);
  const double rows = static_cast<double>(options.batch * options.heads * length) / 1e9;
  measured.forward_gflops = rows * count.forward / measured.forward_s;
  measured.gflops = rows * count.training / measured.both_s;
  return measured;
}

// The recurrent form from position 0 on: for each length the mean seconds of a position up to it.
void measure_steps(AttentionOptions chosen, const AttentionBench& options,
                   std::vector<Measured>& rows) {
  chosen.length = rows.back().length;
  const std::unique_ptr<Attention> attention = make_attention(chosen);
  if (!attention->traits().not_causal.empty()) {  // it has no recurrent form
    for (Measured& row : rows) row.step_s = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  const Shape shape{options.batch, options.heads, 1, options.key_size};
  const auto normal = [&](uint32_t stream_id) {
    return Var(normal_tensor(shape, stream_id, DType::f32));
  };
  AttentionInputs in{normal(1), normal(2), normal(3), Var()};
  set_constant_gates(in, *attention, {options.batch, options.heads, 1}, 0.5, DType::f32);
  const std::unique_ptr<AttentionState> state = attention->start(options.batch, DType::f32);
  int64_t position = 0;
  const Stopwatch watch;
  for (Measured& row : rows) {
    for (; position < row.length; ++position) attention->step(*state, in);
    device_memory(context().device).wait(context());
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
  std::vector<std::vector<std::string>> cells;
  for (const auto& [name, rows] : table)
    for (const auto& [other, others] : table) {
      if (name == other || other.rfind("performer", 0) == 0 || name == "softmax") continue;
      if (table.size() > 4 && other != table.front().first) continue;  // a line for each
      const std::string forward = crossover(rows, others, &Measured::forward_s);
      const std::string both = crossover(rows, others, &Measured::both_s);
      const std::string step = crossover(rows, others, &Measured::step_s);
      if (json) {
        print_json_line({{"faster", name},
                         {"than", other},
                         {"forward", forward},
                         {"forward_backward", both},
                         {"step", step}});
      } else {
        cells.push_back({name + " than " + other, forward, both, step});
      }
    }
  if (cells.empty()) return;
  fmt::print("\n");
  print_table({{"faster than"}, {"forward"}, {"forward and backward"}, {"a sampled token"}}, cells);
}

// Seconds over N, of a forward pass with its backward pass and of a sampled token.
void write_chart(const Table& table, const std::string& path) {
  std::vector<Chart> charts;
  const std::pair<const char*, double Measured::*> times[] = {
      {"forward and backward", &Measured::both_s}, {"a sampled token", &Measured::step_s}};
  for (const auto& [title, time] : times) {
    Chart chart{title, {"positions N", true}, {"milliseconds", true}, {}};
    for (const auto& [name, rows] : table) {
      const int i = static_cast<int>(chart.series.size());
      Series series{name, {}, {}, i, i};
      for (const Measured& row : rows) {
        if (std::isnan(row.*time)) continue;
        series.x.push_back(static_cast<double>(row.length));
        series.y.push_back(1e3 * row.*time);
      }
      chart.x.ticks = series.x;
      chart.series.push_back(series);
    }
    charts.push_back(chart);
  }
  write_charts(path, charts);
}

constexpr const char* kHead = "{:>7} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>13} {:>13}\n";

void print_head(const Machine& machine, const AttentionBench& options) {
  if (options.json) {
    nlohmann::ordered_json line = json_of(machine);
    line.update(
        {{"batch", options.batch}, {"heads", options.heads}, {"key_size", options.key_size}});
    return print_json_line(line);
  }
  fmt::print(
      "{}causal where a causal form exists, {}, B {} H {} D = M = {}; extra bytes exclude inputs "
      "and\n"
      "results; GFLOP/s of forward and backward count the products of the recurrent form, 14 F M "
      "per\n"
      "token and head (delta: 22; softmax: 7 D of each key that a query sees)\n\n",
      summary_of(machine), options.dtype, options.batch, options.heads, options.key_size);
  fmt::print(kHead, "N", "forward ms", "fwd+bwd ms", "us/token", "GFLOP/s", "of SGEMM", "us/step",
             "extra MiB fwd", "extra MiB f+b");
}

void print_row(const Machine& machine, const AttentionBench& options, const std::string& name,
               const Measured& m) {
  const double share = m.gflops / machine.sgemm_gflops;
  if (options.json) {
    return print_json_line({{"attention", name},
                            {"length", m.length},
                            {"forward_s", m.forward_s},
                            {"forward_backward_s", m.both_s},
                            {"forward_gflops", m.forward_gflops},
                            {"gflops", m.gflops},
                            {"fraction_of_sgemm", share},
                            {"step_s", m.step_s},
                            {"forward_bytes", m.forward_bytes},
                            {"forward_backward_bytes", m.both_bytes}});
  }
  const auto text = [](double x, int digits) {
    return std::isnan(x) ? "-" : fmt::format("{:.{}f}", x, digits);
  };
  fmt::print(kHead, m.length, text(1e3 * m.forward_s, 2), text(1e3 * m.both_s, 2),
             text(1e6 * m.both_s / static_cast<double>(m.length * options.batch), 3),
             text(m.gflops, 1), text(share, 2), text(1e6 * m.step_s, 2),
             text(m.forward_bytes / 1048576.0, 2), text(m.both_bytes / 1048576.0, 2));
  std::fflush(stdout);
}

// The attentions as they are measured. Errors: all flags that cannot work, before anything is
// measured.
std::vector<AttentionOptions> checked_attentions(const AttentionBench& options) {
  check_seconds(options.seconds);
  check_size("batch", options.batch);
  check_size("heads", options.heads);
  check_size("key_size", options.key_size);
  require(options.segment >= 0 && options.chunk >= 0,
          "`segment` is {} and `chunk` {}; both must be at least 0", options.segment,
          options.chunk);
  for (const int64_t length : options.lengths)
    require(length >= 1, "`lengths` has {}; each must be at least 1", length);
  std::vector<AttentionOptions> result = options.attentions;
  for (AttentionOptions& chosen : result) {
    chosen.segment = options.segment;
    chosen.chunk = options.chunk;
    chosen.heads = options.heads;
    chosen.key_size = chosen.value_size = options.key_size;
    static_cast<void>(make_attention(chosen));
  }
  return result;
}

}  // namespace

void run(const AttentionBench& options) {
  const std::vector<AttentionOptions> attentions = checked_attentions(options);
  if (!options.svg.empty())
    AtomicFile probe(options.svg);  // a folder that takes no files is an error now
  use_machine(options.threads, options.device, options.dtype);
  warn_of_slow_bf16();
  const Machine machine = measure_machine(options.seconds, options.dtype);
  print_head(machine, options);
  std::vector<int64_t> lengths = options.lengths;
  std::sort(lengths.begin(), lengths.end());
  Table table;
  for (const AttentionOptions& chosen : attentions) {
    std::vector<Measured> rows;
    for (const int64_t length : lengths) rows.push_back(measure(chosen, options, length));
    measure_steps(chosen, options, rows);
    table.emplace_back(label_of(chosen), rows);
    if (!options.json) fmt::print("{}\n", label_of(chosen));
    for (const Measured& m : rows) print_row(machine, options, label_of(chosen), m);
  }
  print_crossovers(table, options.json);
  if (options.svg.empty()) return;
  write_chart(table, options.svg);
  if (!options.json) fmt::print("{}\n", options.svg);
}

}  // namespace linea::bench
