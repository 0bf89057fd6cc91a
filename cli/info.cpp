// linea info: what this build and machine have, what a run holds, the tensors of a file.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/device_rates.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/program.h"
#include "data/safetensors.h"
#include "tensor/backend.h"
#include "train/checkpoint.h"
#include "train/format.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

void show_build() {
  const BlasInfo blas = blas_info();
  print("linea " + version());
  print(fmt::format("BLAS        {}; kernels {}; {}; {} threads", blas.version, blas.kernel,
                    blas.flavor, blas.threads));
  print(fmt::format("isa         {} (of {}; LINEA_ISA selects)", cpu_isa(),
                    fmt::join(all_cpu_isas(), ", ")));
  print(fmt::format("devices     cpu{}",
                    built_with_cuda() ? "" : " (this build has no CUDA backend)"));
  const std::vector<std::string> devices = cuda_devices();
  for (const std::string& line : devices) print("            " + line);
  if (!devices.empty())
    for (const std::string& line : rates_of_cuda()) print("            cuda:0 " + line);
  for (const AttentionEntry& entry : attentions()) {
    std::vector<std::string> labels;
    for (const AttentionOptions& variant : entry.variant_options())
      labels.push_back(label_of(variant));
    print(fmt::format("attention   {}", fmt::join(labels, "; ")));
  }
  print(fmt::format("presets     {}", fmt::join(preset_names(), ", ")));
}

void show_tensors(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const std::string& warning : file.warnings())
    std::fprintf(stderr, "linea: %s\n", warning.c_str());
  for (const SafetensorsEntry& entry : file.entries())
    print(fmt::format("{:<5} [{}] {}", entry.dtype, fmt::join(entry.shape, ","), entry.name));
  for (const auto& [key, value] : file.metadata())
    print(fmt::format("metadata {}: {}", key, value));
  print(fmt::format("{} tensors", file.entries().size()));
}

void show_run(const std::string& path) {
  const SavedModel saved = load_model(path);
  print(fmt::format("step        {} of {}", saved.step, saved.config.steps));
  print(fmt::format("attention   {}", label_of(saved.model->config().attention)));
  print(fmt::format("parameters  {} in {} tensors",
                    format_count(static_cast<double>(count_elements(saved.model->parameters()))),
                    saved.model->parameters().size()));
  print(fmt::format("tokens     {}, length {}", saved.shape.vocab_size, saved.shape.length));
  print("");
  print(to_toml(saved.config));
}

}  // namespace

void add_info(CLI::App& program, int& exit_code) {
  CLI::App& command =
      add_command(program, "info", "describe this build and machine, a run, or a safetensors file");
  const auto path = std::make_shared<std::string>();
  add_option(command, "PATH", *path, "a run, a checkpoint folder, or a .safetensors file");
  set_action(command, [path, &exit_code] {
    std::error_code error;
    if (path->empty()) {
      show_build();
    } else if (fs::is_directory(*path, error)) {
      show_run(*path);
    } else {
      show_tensors(*path);
    }
    exit_code = 0;
  });
}

}  // namespace linea
