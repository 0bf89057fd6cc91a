// linea bench sample: how fast a preset model with random weights draws by the recurrent form, side
// by side in batches; and one alone, against the rate at which its weights can be read, which no
// program can beat.
#include <algorithm>
#include <memory>

#include "bench/bench.h"
#include "bench/commands.h"
#include "bench/device_rates.h"
#include "data/json.h"
#include "nn/generation.h"
#include "nn/transformer.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

constexpr int64_t kWarmup = 4;  // positions sampled before the clock starts

struct Sampled {
  int64_t batch, positions;
  double tokens_per_s, images_per_s;
  double read_gb_per_s = 0, of_read = 0;  // of a batch of 1
  std::string not_captured{};             // why a GPU was asked for each launch by itself
};

// Bytes of weights read per token; of an embedding table one row, unless it is tied to the output
// head.
double weight_bytes(const Model& model) {
  double bytes = 0;
  for (const auto& [name, var, optional, matrices] : model.parameters()) {
    const bool one_row = name.ends_with("_embedding.weight") &&
                         (name != "token_embedding.weight" || !model.config().tie);
    const bool matrix = var.shape().rank() == 2 && !one_row;
    bytes += static_cast<double>(var.value().numel()) /
             static_cast<double>(one_row ? var.size(0) : 1) *
             static_cast<double>(size_of(matrix ? model.config().panels : var.dtype()));
  }
  return bytes;
}

// Bytes of a sequence's state before its first position: all, and the rows that convolutions save,
// which are not part of the states of attentions.
struct StateBytes {
  size_t all, rows;
};

StateBytes state_bytes(const Model& model) {
  const DecodeState state = model.start(1);
  StateBytes bytes{state.bytes(), 0};
  for (const LayerState& layer : state.layers) bytes.rows += layer.rows_bytes();
  return bytes;
}

std::string state_text(const StateBytes& bytes) {
  if (bytes.rows == 0) return "";
  return fmt::format(
      "state of a sequence: {:.1f} KB, of which {:.1f} KB are rows of convolutions\n",
      static_cast<double>(bytes.all) / 1e3, static_cast<double>(bytes.rows) / 1e3);
}

// Positions that take a few seconds; all of an image where a position costs more the later it is.
int64_t positions_of(const Model& model, const SampleBench& options, int64_t batch) {
  const int64_t max = model.config().length - kWarmup;
  if (options.tokens > 0) return std::min(options.tokens, max);
  for (const auto& attention : model.attentions())
    if (attention->flops(1).forward < attention->flops(model.config().length).forward) return max;
  const int64_t fewest = context().device.kind == DeviceKind::cpu ? 16 : 200;
  return std::min<int64_t>(max, std::clamp<int64_t>(12800 / batch, fewest, 200));
}

Sampled measure(const Model& model, const SampleBench& options, int64_t batch) {
  const int64_t positions = positions_of(model, options, batch);
  const Stopwatch watch;
  std::vector<double> times;  // at which each position's tokens came
  const std::vector<std::vector<int32_t>> prompt(static_cast<size_t>(batch), {0});
  std::string not_captured;
  const auto sampled_now = [&](const std::vector<int32_t>&) {
    times.push_back(watch.seconds());
    return true;
  };
  sample_tokens(model, {1.0, false, 1}, prompt, kWarmup + positions, sampled_now, &not_captured);
  const double seconds = times.back() - times[kWarmup - 1];
  Sampled sampled{batch, positions, static_cast<double>(batch * positions) / seconds, 0};
  sampled.not_captured = not_captured;
  sampled.images_per_s = sampled.tokens_per_s / static_cast<double>(model.config().length);
  if (batch == 1) {
    const double bytes = weight_bytes(model);
    sampled.read_gb_per_s = read_rate(bytes) / 1e9;
    sampled.of_read = sampled.tokens_per_s * bytes / 1e9 / sampled.read_gb_per_s;
  }
  return sampled;
}

void print(const SampleBench& options, const StateBytes& state, const Sampled& sampled) {
  const bool alone = sampled.batch == 1;
  if (options.json) {
    const auto number = [&](double x) {
      return alone ? nlohmann::ordered_json(x) : nlohmann::ordered_json();
    };
    nlohmann::ordered_json line = {{"batch", sampled.batch},
                                   {"positions", sampled.positions},
                                   {"tokens_per_s", sampled.tokens_per_s},
                                   {"images_per_s", sampled.images_per_s},
                                   {"read_gb_per_s", number(sampled.read_gb_per_s)},
                                   {"of_read", number(sampled.of_read)},
                                   {"state_bytes", state.all},
                                   {"convolution_bytes", state.rows}};
    if (!sampled.not_captured.empty()) line["not_captured"] = sampled.not_captured;
    return print_json_line(line);
  }
  fmt::print("{:>7} {:>10} {:>12.0f} {:>12.3f} {:>14} {:>10}\n", sampled.batch, sampled.positions,
             sampled.tokens_per_s, sampled.images_per_s,
             alone ? fmt::format("{:.1f}", sampled.read_gb_per_s) : "-",
             alone ? fmt::format("{:.0f}", 100 * sampled.of_read) : "-");
  if (!sampled.not_captured.empty())
    fmt::print("        positions were not captured: {}\n", sampled.not_captured);
  std::fflush(stdout);
}

}  // namespace

void run(SampleBench options) {
  const ModelConfig config = chosen_model(options.model);
  require(config.length > kWarmup,
          "`length` is {}; it must be above the {} positions of the warm-up", config.length,
          kWarmup);
  require(options.tokens >= 0, "`tokens` is {}; it must be at least 0", options.tokens);
  for (const int64_t batch : options.batches)
    require(batch >= 1, "`batches` has {}; each must be at least 1", batch);
  const Machine machine = measure_machine(0.3, options.model.config.dtype);
  const Transformer model(config);
  const StateBytes state = state_bytes(model);
  if (options.json) {
    print_json_line(json_of(machine));
  } else {
    fmt::print("{}{}: {}\nrandom weights, {}; {:.1f} MB of weights per token\n{}\n",
               summary_of(machine), options.model.preset, summary_of(config),
               options.model.config.dtype, weight_bytes(model) / 1e6, state_text(state));
    fmt::print("{:>7} {:>10} {:>12} {:>12} {:>14} {:>10}\n", "batch", "positions", "tokens/s",
               "images/s", "weights GB/s", "share %");
  }
  for (const int64_t batch : options.batches) print(options, state, measure(model, options, batch));
  if (!options.json)
    fmt::print(
        "\nAn image has {} tokens. weights GB/s: the rate at which a sum reads as many bytes; "
        "share: what sampling reaches of it.\n",
        config.length);
}

}  // namespace linea::bench
