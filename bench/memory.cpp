// linea bench memory: what the gradient of causal linear attention costs by each way of
// bench/memory_comparison.h: bytes beyond inputs and results, time, and how far it is from that in
// float64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/gradcheck.h"
#include "bench/bench.h"
#include "bench/commands.h"
#include "bench/memory_comparison.h"
#include "data/chart.h"
#include "data/files.h"
#include "data/json.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

using memory_comparison::Way;

// One way at one length; a way that was not tried has no bytes (NaN).
struct Entry {
  std::string attention;
  Way way;
  int64_t length;
  double bytes = std::numeric_limits<double>::quiet_NaN(), seconds = 0, dq = 0, dk = 0, dv = 0;
  bool tried() const { return !std::isnan(bytes); }
};

memory_comparison::Inputs random_inputs(const MemoryBench& options, int64_t length) {
  const auto normal = [&](uint32_t stream_id) {
    return random_tensor({length, options.heads, options.key_size}, stream_id, 1.0, 0.0,
                         DType::f32);
  };
  return {normal(1), normal(2), normal(3), normal(4)};
}

Tensor widened(const Tensor& x) { return Tensor::from(x.to_doubles(), x.shape()); }

// The engine's, in float64 and of the same numbers.
memory_comparison::Results reference(AttentionOptions attention,
                                     const memory_comparison::Inputs& in) {
  attention.dtype = DType::f64;
  return compute(Way::recomputed, attention,
                 {widened(in.q), widened(in.k), widened(in.v), widened(in.dy)});
}

double bytes_of(const memory_comparison::Results& results) {
  double bytes = 0;
  for (const Tensor* x : {&results.y, &results.dq, &results.dk, &results.dv})
    bytes += static_cast<double>(x->bytes());
  return bytes;
}

Entry measure(Way way, const AttentionOptions& attention, const MemoryBench& options,
              const memory_comparison::Inputs& in, const memory_comparison::Results& exact) {
  Entry entry{label_of(attention), way, in.q.size(0)};
  if (state_bytes(way, attention, entry.length) > options.limit * 1073741824.0) return entry;
  const bool engine = way == Way::recomputed;
  const memory_comparison::Inputs given = engine ? in.heads_first() : in;
  memory_comparison::Results found;
  const Stopwatch watch;
  entry.bytes = extra_bytes([&] { found = compute(way, attention, given); }) - bytes_of(found);
  entry.seconds = watch.seconds();
  if (entry.seconds < 3)
    entry.seconds = median_seconds(options.seconds, [&] { compute(way, attention, given); });
  device_allocator().release_cache();
  if (!engine) found = found.heads_first();
  entry.dq = relative_error(widened(found.dq), exact.dq);
  entry.dk = relative_error(widened(found.dk), exact.dk);
  entry.dv = relative_error(widened(found.dv), exact.dv);
  return entry;
}

constexpr const char* kRow = "{:>7}  {:<34} {:>10} {:>10} {:>9} {:>9} {:>9}\n";

void print(const MemoryBench& options, const Entry& entry) {
  const bool tried = entry.tried();
  if (options.json) {
    const auto number = [&](double x) {
      return tried ? nlohmann::ordered_json(x) : nlohmann::ordered_json();
    };
    return print_json_line({{"attention", entry.attention},
                            {"way", name_of(entry.way)},
                            {"length", entry.length},
                            {"extra_bytes", number(entry.bytes)},
                            {"forward_backward_s", number(entry.seconds)},
                            {"dq_error", number(entry.dq)},
                            {"dk_error", number(entry.dk)},
                            {"dv_error", number(entry.dv)}});
  }
  const auto fixed = [&](double x) { return tried ? fmt::format("{:.2f}", x) : "-"; };
  const auto error = [&](double x) { return tried ? fmt::format("{:.1e}", x) : "-"; };
  fmt::print(kRow, entry.length, name_of(entry.way), fixed(entry.bytes / 1048576),
             fixed(1e3 * entry.seconds), error(entry.dq), error(entry.dk), error(entry.dv));
  std::fflush(stdout);
}

Chart chart_of(const std::string& attention, const std::vector<Entry>& entries) {
  Chart chart{attention + ", causal: memory for the gradient",
              {"positions N", true},
              {"bytes beyond inputs and results", true},
              {}};
  for (const Way way : memory_comparison::ways()) {
    const std::string name = name_of(way);
    Series series{
        name.substr(0, name.find(" (")), {}, {}, static_cast<int>(way), static_cast<int>(way)};
    for (const Entry& entry : entries) {
      if (entry.attention != attention || entry.way != way) continue;
      series.x.push_back(static_cast<double>(entry.length));
      series.y.push_back(entry.bytes);
      if (std::find(chart.x.ticks.begin(), chart.x.ticks.end(), series.x.back()) ==
          chart.x.ticks.end())
        chart.x.ticks.push_back(series.x.back());
    }
    chart.series.push_back(series);
  }
  return chart;
}

}  // namespace

namespace {

// The attentions that are compared. Errors: all flags that cannot work, before anything is
// measured.
std::vector<AttentionOptions> checked_attentions(const MemoryBench& options) {
  for (const int64_t length : options.lengths)
    require(length >= 1, "`lengths` has {}; each must be at least 1", length);
  check_size("heads", options.heads);
  check_size("key_size", options.key_size);
  check_seconds(options.seconds);
  require(options.limit >= 0, "`limit` is {}; it must be at least 0", options.limit);
  std::vector<AttentionOptions> result = {{"linear"},
                                          {"performer", {{"features", options.features}}}};
  for (AttentionOptions& attention : result) {
    attention.heads = options.heads;
    attention.key_size = attention.value_size = options.key_size;
    static_cast<void>(make_attention(attention));
  }
  return result;
}

}  // namespace

void run(MemoryBench options) {
  const std::vector<AttentionOptions> attentions = checked_attentions(options);
  if (options.threads != 0) set_threads(static_cast<int>(options.threads));
  if (!options.svg.empty())
    AtomicFile probe(options.svg);  // a folder that takes no files is an error now
  const Machine machine = measure_machine(options.seconds);
  if (options.json) {
    print_json_line(json_of(machine));
  } else {
    fmt::print(
        "{}causal, float32, one sequence, H {} D = M = {}; extra MiB exclude inputs and results;\n"
        "errors of gradients against float64, relative to the largest; -: skipped, more than {:g} "
        "GiB of states\n\n",
        summary_of(machine), options.heads, options.key_size, options.limit);
    fmt::print(kRow, "N", "way", "extra MiB", "time ms", "dq error", "dk error", "dv error");
  }
  std::vector<Chart> charts;
  for (const AttentionOptions& attention : attentions) {
    std::vector<Entry> entries;
    if (!options.json) fmt::print("{}\n", label_of(attention));
    for (const int64_t length : options.lengths) {
      const memory_comparison::Inputs in = random_inputs(options, length);
      const memory_comparison::Results exact = reference(attention, in.heads_first());
      for (const Way way : memory_comparison::ways()) {
        entries.push_back(measure(way, attention, options, in, exact));
        print(options, entries.back());
      }
    }
    charts.push_back(chart_of(label_of(attention), entries));
  }
  if (!options.svg.empty()) write_charts(options.svg, charts);
}

}  // namespace linea::bench
