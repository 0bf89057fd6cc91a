#include "bench/bench.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "autograd/gradcheck.h"
#include "bench/device_rates.h"
#include "cli/flags.h"
#include "tensor/backend.h"
#include "tensor/ops.h"
#include "train/machine.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

struct ModelPreset {
  const char* name;
  int64_t tokens, read_tokens;  // that are predicted; and with a start token
  int64_t levels;               // of an image; 0: no image
  const char *model, *training;
};

const ModelPreset kModels[] = {
    // Karpathy, nanoGPT: the recipe for a CPU in its README.
    {"nanogpt", 65, 65, 0,
     "attention = 'softmax'\nlayers = 4\nheads = 4\ndim = 128\nffn = 512\nlength = 64\ntie = "
     "true\nbias = false\n"
     "features = 256",
     "batch = 12\nlr = 1e-3\nbeta2 = 0.99\nweight_decay = 0.1\nclip = 1.0\ndropout = 0"},
    // Katharopoulos 2020, section 4.2.1: MNIST pixel by pixel.
    {"mnist-paper", 256, 257, 256,
     "attention = 'linear'\nlayers = 8\nheads = 8\ndim = 256\nffn = 1024\nlength = 784\nfeatures = "
     "256",
     "batch = 10"},
};

const std::set<std::string> kModelSettings = {
    "attention", "feature", "rule",      "nu",          "features",   "projection", "redraw",
    "codes",     "sigma",   "anneal",    "codebook",    "commitment", "layers",     "heads",
    "dim",       "ffn",     "positions", "output_head", "tie",        "bias",       "length",
    "seed",      "threads", "segment",   "chunk",       "device",     "dtype",      "reversible"};
const std::set<std::string> kTrainingSettings = {
    "batch", "optimizer", "lr", "beta1", "beta2", "weight_decay", "clip", "dropout", "recompute"};

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelPreset& model : kModels) names.emplace_back(model.name);
  return names;
}

const ModelPreset& preset_of(const std::string& name) {
  for (const ModelPreset& model : kModels)
    if (name == model.name) return model;
  fail(ErrorKind::usage, "bench has no preset '{}'; choose one of {}", name,
       fmt::join(model_names(), ", "));
}

}  // namespace

double median_seconds(double seconds, const std::function<void()>& work) {
  std::vector<double> times;
  const Stopwatch all;
  while (times.size() < 3 || (all.seconds() < seconds && times.size() < 1000)) {
    const Stopwatch one;
    work();
    device_memory(context().device).wait(context());
    times.push_back(one.seconds());
  }
  return median(times);
}

double extra_bytes(const std::function<void()>& work) {
  const size_t before = memory_use().held;
  reset_memory_peak();
  work();
  return static_cast<double>(memory_use().peak - before);
}

double peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::stod(line.substr(6));
  fail(ErrorKind::input,
       "/proc/self/status has no VmHWM: this system does not report the memory of a process");
}

Machine measure_machine(double seconds, const std::string& dtype) {
  const Device device = context().device;
  const bool cpu = device.kind == DeviceKind::cpu;
  Machine machine{blas_info(), context().threads, 0, dtype, "cpu", 0};
  machine.sgemm_gflops =
      product_rate(dtype == "bf16" && !cpu ? DType::bf16 : DType::f32, seconds) / 1e9;
  if (cpu) return machine;
  machine.device = cuda_devices().at(static_cast<size_t>(device.index));
  machine.read_gb_per_s = read_rate(0) / 1e9;
  return machine;
}

std::string to_string(const Machine& machine) {
  if (machine.device != "cpu")
    return fmt::format("{}\nproducts of {}: {:.0f} GFLOP/s; reads {:.0f} GB/s\n", machine.device,
                       machine.dtype, machine.sgemm_gflops, machine.read_gb_per_s);
  return fmt::format("{}\nkernels {}, {}, {} threads: SGEMM {:.1f} GFLOP/s\n", machine.blas.version,
                     machine.blas.kernel, machine.blas.flavor, machine.threads,
                     machine.sgemm_gflops);
}

nlohmann::ordered_json json_of(const Machine& machine) {
  return {{"blas", machine.blas.version},
          {"kernel", machine.blas.kernel},
          {"flavor", machine.blas.flavor},
          {"threads", machine.threads},
          {"device", machine.device},
          {"dtype", machine.dtype},
          {"read_gb_per_s",
           machine.read_gb_per_s > 0 ? nlohmann::ordered_json(machine.read_gb_per_s) : nullptr},
          {"sgemm_gflops", machine.sgemm_gflops}};
}

void add_model(CLI::App& command, ModelChoice& choice) {
  add_option(command, "--preset", choice.preset,
             fmt::format("the model: {}", fmt::join(model_names(), " or ")),
             OptionKind::shows_default);
  std::set<std::string> settings = kModelSettings;
  if (choice.trains) settings.insert(kTrainingSettings.begin(), kTrainingSettings.end());
  add_settings(command, choice.config, settings);
}

ModelConfig chosen_model(CLI::App& command, ModelChoice& choice) {
  const ModelPreset& preset = preset_of(choice.preset);
  RunConfig& config = choice.config;
  const std::set<std::string> given = given_settings(command);
  apply_toml(command, preset.model, "preset " + choice.preset, given);
  if (choice.trains) apply_toml(command, preset.training, "preset " + choice.preset, given);
  config.task = "random tokens";
  const Work work = choice.trains ? Work::training : Work::sampling;
  check_settings(config, work);
  use_machine(config.threads, config.device, config.dtype, work);
  TaskShape shape{};
  shape.length = config.length;
  shape.vocab_size = preset.tokens;
  shape.input_vocab_size = preset.read_tokens;
  shape.levels = preset.levels;
  return model_config(config, shape);
}

std::string to_string(const ModelConfig& config) {
  return fmt::format("{}, {} layers, {} heads, dim {}, ffn {}, length {}, {} tokens",
                     label_of(config.attention), config.layers, config.heads, config.dim,
                     config.ffn, config.length, config.vocab_size);
}

}  // namespace linea::bench
