#include "bench/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "autograd/gradcheck.h"
#include "bench/device_rates.h"
#include "data/vocabulary.h"
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
  int64_t length;
  const char *model, *training;
};

const ModelPreset kModels[] = {
    // Karpathy, nanoGPT: the recipe for a CPU in its README.
    {"nanogpt", 65, 65, 0, 64,
     "attention = 'softmax'\nlayers = 4\nheads = 4\ndim = 128\nffn = 512\ntie = true\nbias = false",
     "batch = 12\nlr = 1e-3\nbeta2 = 0.99\nweight_decay = 0.1\nclip = 1.0\ndropout = 0"},
    // Katharopoulos 2020, section 4.2.1: MNIST pixel by pixel.
    {"mnist-paper", 256, 257, 256, 784,
     "attention = 'linear'\nlayers = 8\nheads = 8\ndim = 256\nffn = 1024", "batch = 10"},
};

// Where the attention declares them.
const Settings kAttentionSettings = {{"features", 256}};

const std::set<std::string> kMachineSettings = {"seed",    "threads", "device",
                                                "segment", "chunk",   "dtype"};
const std::set<std::string> kTrainingSettings = {
    "batch", "optimizer", "lr", "ema", "clip", "dropout", "recompute", "sequence_ranks"};

TaskShape shape_of(const ModelPreset& preset) {
  TaskShape shape{};
  shape.length = preset.length;
  shape.vocab_size = preset.tokens;
  shape.input_vocab_size = preset.read_tokens;
  shape.levels = preset.levels;
  return shape;
}

// The shape of a preset of `linea train`, without its data: a text has all bytes as tokens, or 65
// characters as Tiny Shakespeare has.
TaskShape shape_of(const RunConfig& config) {
  std::string vocabulary;
  if (find_task(config.task).has_vocabulary) {
    constexpr int kCharacters = 65;
    std::string text;
    for (int i = 0; i < kCharacters; ++i) text.push_back(static_cast<char>('!' + i));
    const Settings& task = config.task_settings;
    const bool bytes = task.has("tokenizer") && task.text("tokenizer") == "bytes";
    vocabulary =
        (bytes ? Vocabulary::all_bytes() : Vocabulary::from_text(text, "bench")).serialize();
  }
  return task_shape(task_options(config, vocabulary));
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
  const size_t before = device_allocator().use().held;
  device_allocator().reset_peak();
  work();
  return static_cast<double>(device_allocator().use().peak - before);
}

Machine measure_machine(double seconds, const std::string& dtype) {
  const Device device = context().device;
  const bool cpu = device.kind == DeviceKind::cpu;
  Machine machine{blas_info(), context().threads, 0, dtype, "cpu", 0};
  const FloatProducts chosen = context().products;
  if (cpu) context().products = FloatProducts::exact;  // the rate of SGEMM in every dtype
  machine.sgemm_gflops =
      product_rate(dtype == "bf16" && !cpu ? DType::bf16 : DType::f32, seconds) / 1e9;
  context().products = chosen;
  if (cpu) return machine;
  machine.device = cuda_devices().at(static_cast<size_t>(device.index));
  machine.read_gb_per_s = read_rate(0) / 1e9;
  return machine;
}

std::string summary_of(const Machine& machine) {
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

std::vector<std::string> model_preset_names(bool trains) {
  std::vector<std::string> names;
  for (const ModelPreset& model : kModels) names.emplace_back(model.name);
  for (const std::string& name : preset_names()) {
    const bool is_own = std::find(names.begin(), names.end(), name) != names.end();
    if (is_own) continue;
    const TaskShape shape = shape_of(config_from_toml(preset_text(name), name));
    if (trains || (shape.second_vocab_size == 0 && shape.answer_tokens == 0)) names.push_back(name);
  }
  return names;
}

void check_size(const char* key, int64_t value) {
  require(value >= 1, "`{}` is {}; it must be at least 1", key, value);
}

void check_seconds(double seconds) {
  require(std::isfinite(seconds) && seconds >= 0,
          "`seconds` is {}; it must be finite and at least 0", seconds);
}

bool changes_model(const GeneralSetting& general, bool trains) {
  const std::string& key = general.setting.key;
  return general.group == "Model" || kMachineSettings.count(key) != 0 ||
         (trains && kTrainingSettings.count(key) != 0);
}

ModelConfig chosen_model(ModelChoice& choice) {
  const std::vector<std::string> names = model_preset_names(choice.trains);
  if (std::find(names.begin(), names.end(), choice.preset) == names.end())
    fail(ErrorKind::usage, "this bench has no preset '{}'; choose one of {}", choice.preset,
         fmt::join(names, ", "));
  const ModelPreset* own = nullptr;
  for (const ModelPreset& model : kModels)
    if (choice.preset == model.name) own = &model;
  const std::string source = "preset " + choice.preset;
  std::vector<SettingLayer> layers;
  layers.push_back(parse_toml(own != nullptr ? own->model : preset_text(choice.preset), source));
  if (own != nullptr && choice.trains) layers.push_back(parse_toml(own->training, source));
  layers.push_back(choice.given);
  RunConfig& config = choice.config;
  config = resolve(layers);
  if (own != nullptr) set_defaults(config, kAttentionSettings);
  const Work work = choice.trains ? Work::training : Work::sampling;
  check_model_settings(config, work);
  require(!config.skip_blank,
          "`skip_blank` goes by images, and the tokens of a benchmark are random: leave it out");
  use_machine(config.threads, config.device, config.dtype, work);
  warn_of_slow_bf16();
  TaskShape shape = own != nullptr ? shape_of(*own) : shape_of(config);
  shape.length = choice.length.value_or(shape.length);
  return model_config(config, shape);
}

void warn_of_slow_bf16() {
  if (const std::string note = slow_bf16_note(); !note.empty()) fmt::print(stderr, "{}\n", note);
}

TaskShape shape_of(const ModelConfig& model) {
  TaskShape shape;
  shape.vocab_size = model.vocab_size;
  shape.input_vocab_size = model.input_vocab_size;
  shape.length = model.length;
  shape.second_vocab_size = model.second_vocab_size;
  return shape;
}

std::string summary_of(const ModelConfig& config) {
  return fmt::format("{}, {} layers, {} heads, dim {}, ffn {}, length {}, {} tokens",
                     label_of(config.attentions), config.layers, config.heads, config.dim,
                     config.ffn, config.length, config.vocab_size);
}

}  // namespace linea::bench
