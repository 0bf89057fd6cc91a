// linea info: what this build and machine have, what a run holds, the tensors of a file.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/device_rates.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/program.h"
#include "cli/terminal.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "tensor/backend.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/format.h"
#include "train/run_history.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

// Its settings as flags with their defaults, and the variants that `linea verify` checks.
void show_attention(const AttentionEntry& entry) {
  print(fmt::format("attention   {}: {}", entry.name, entry.summary));
  print("            source: " + entry.source);
  for (const Setting& setting : entry.settings) {
    std::string line = fmt::format("            --{} {:<10}  {}", flag_name(setting.key),
                                   to_string(setting.initial), setting.help);
    if (!setting.choices.empty()) line += fmt::format(": {}", fmt::join(setting.choices, ", "));
    const auto& [key, values] = setting.only_with;
    if (!key.empty())
      line += fmt::format(" (with --{} {})", flag_name(key), fmt::join(values, " or "));
    print(line);
  }
  std::vector<std::string> labels;
  for (const AttentionOptions& variant : entry.variant_options())
    labels.push_back(label_of(variant));
  print(fmt::format("            verified: {}", fmt::join(labels, "; ")));
}

void show_build(bool json) {
  const BlasInfo blas = blas_info();
  const std::vector<std::string> devices = cuda_devices();
  const std::string bf16 = bf16_isa() == nullptr ? "none" : bf16_isa();
  if (json)
    return print_json_line({{"version", version()},
                            {"blas", blas.version},
                            {"kernel", blas.kernel},
                            {"threads", context().threads},
                            {"isa", cpu_isa()},
                            {"bf16", bf16},
                            {"cuda_devices", devices},
                            {"attentions", attention_names()},
                            {"presets", preset_names()}});
  print("linea " + version());
  print(fmt::format("BLAS        {}; kernels {}; {}; {}", blas.version, blas.kernel, blas.flavor,
                    plural(context().threads, "thread")));
  print(fmt::format("isa         {} (of {}; LINEA_ISA selects)", cpu_isa(),
                    fmt::join(all_cpu_isas(), ", ")));
  print(fmt::format("bf16        {} (of {}; LINEA_ISA selects)", bf16,
                    fmt::join(all_bf16_isas(), ", ")));
  print(fmt::format("devices     cpu{}",
                    built_with_cuda() ? "" : " (this build has no CUDA backend)"));
  for (const std::string& line : devices) print("            " + line);
  if (!devices.empty())
    for (const std::string& line : rates_of_cuda()) print("            cuda:0 " + line);
  for (const AttentionEntry& entry : attentions()) show_attention(entry);
  print(fmt::format("presets     {}", fmt::join(preset_names(), ", ")));
}

void show_tensors(const std::string& path, bool json) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const std::string& warning : file.warnings())
    std::fprintf(stderr, "linea: %s\n", warning.c_str());
  if (json) {
    Json tensors = Json::array();
    for (const SafetensorsEntry& entry : file.entries())
      tensors.push_back({{"name", entry.name}, {"dtype", entry.dtype}, {"shape", entry.shape}});
    return print_json_line({{"metadata", file.metadata()}, {"tensors", tensors}});
  }
  for (const SafetensorsEntry& entry : file.entries())
    print(fmt::format("{:<5} [{}] {}", entry.dtype, fmt::join(entry.shape, ","), entry.name));
  for (const auto& [key, value] : file.metadata())
    print(fmt::format("metadata {}: {}", key, value));
  print(fmt::format("{} tensors", file.entries().size()));
}

// Whole numbers without a fraction.
Json to_json(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

// The numbers of a line of metrics.jsonl; null for null, and for a number that was not finite.
Json to_json(const MetricsLine* line) {
  if (line == nullptr) return nullptr;
  Json result = {{"step", line->step}};
  for (const auto& [name, value] : line->values) result[name] = to_json(value);
  return result;
}

// What metrics.jsonl and the samples of a run hold, if anything.
void show_results(const RunHistory& history, const TaskShape& shape) {
  if (const MetricsLine* line = history.last("loss"))
    print(fmt::format("training    step {}: loss {:.4f}, {} tokens/s, {} in all", line->step,
                      line->value("loss"), format_count(line->value("tokens_per_s")),
                      format_duration(history.seconds())));
  if (const MetricsLine* line = history.last("val_loss"))
    print("validation  " + describe_validation(*line, shape));
  if (const MetricsLine* line = history.best_validation())
    print("best        " + describe_validation(*line, shape));
  const std::string written = last_written(history.folder);
  if (!written.empty()) print("written     " + written);
  const std::vector<std::string> samples = sample_files(history.folder);
  if (!samples.empty())
    print(fmt::format("samples     {}{}", samples.back(),
                      samples.size() == 1 ? "" : fmt::format(" and {} more", samples.size() - 1)));
}

// The run of a checkpoint folder, RUN/checkpoints/step-...; any other folder itself.
fs::path run_of(const fs::path& folder) {
  const fs::path clean = (folder / "").parent_path();
  const fs::path run = clean.parent_path().parent_path();
  return is_run(run) && !is_run(clean) ? run : clean;
}

// Numbers of config.toml are numbers, its flags are flags.
Json settings_json(const RunConfig& config) {
  Json result = Json::object();
  for (const AppliedSetting& applied : applied_settings(config))
    std::visit([&](const auto& held) { result[applied.setting.key] = held; }, applied.value);
  return result;
}

void show_run(const std::string& path, bool json) {
  const SavedModel saved = load_model(path);
  print_note(saved.note);
  const RunHistory history = read_history(run_of(path));
  const std::string attention = label_of(saved.model->config().attention);
  const int64_t parameters = count_elements(saved.model->parameters());
  if (json)
    return print_json_line({{"step", saved.step},
                            {"steps", saved.config.steps},
                            {"attention", attention},
                            {"parameters", parameters},
                            {"vocab_size", saved.shape.vocab_size},
                            {"length", saved.shape.length},
                            {"training", to_json(history.last("loss"))},
                            {"validation", to_json(history.last("val_loss"))},
                            {"best", to_json(history.best_validation())},
                            {"elapsed_s", history.seconds()},
                            {"written", last_written(history.folder)},
                            {"samples", sample_files(history.folder)},
                            {"config", settings_json(saved.config)}});
  print(fmt::format("step        {} of {}", saved.step, saved.config.steps));
  print("attention   " + attention);
  print(fmt::format("parameters  {} in {} tensors", format_count(static_cast<double>(parameters)),
                    saved.model->parameters().size()));
  print(fmt::format("tokens      {}, length {}", saved.shape.vocab_size, saved.shape.length));
  show_results(history, saved.shape);
  print("");
  print(to_toml(saved.config));
}

}  // namespace

void add_info(CLI::App& program, int& exit_code) {
  CLI::App& command =
      add_command(program, "info", "describe this build and machine, a run, or a safetensors file",
                  "Example:  linea info runs/digits");
  struct Options {
    std::string path;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  add_option(command, "PATH", options->path, "a run, a checkpoint folder, or a .safetensors file");
  add_flag(command, "--json", options->json, "one JSON object on stdout");
  set_action(command, [options, &exit_code] {
    std::error_code error;
    if (options->path.empty()) {
      show_build(options->json);
    } else if (fs::is_directory(options->path, error)) {
      show_run(options->path, options->json);
    } else {
      show_tensors(options->path, options->json);
    }
    exit_code = 0;
  });
}

}  // namespace linea
