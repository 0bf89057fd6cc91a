// linea info: what this build and machine have, what a run holds, the tensors of a file.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/device_rates.h"
#include "bench/network.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/program.h"
#include "cli/settings_json.h"
#include "cli/terminal.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "tensor/backend.h"
#include "train/evaluate.h"
#include "train/format.h"
#include "train/record/run_history.h"
#include "train/record/table.h"
#include "train/run/checkpoint.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

// Under what the line says, which begins at this column.
constexpr size_t kIndent = 12;

void print_field(const std::string& name, const std::string& text) {
  print_wrapped(fmt::format("{:<{}}{}", name, kIndent, text), kIndent);
}

// What is true of an attention by its defaults, of 1024 positions of an image of 32 x 32.
AttentionTraits traits_of(const AttentionEntry& entry) {
  AttentionOptions options{entry.name};
  options.length = 1024;
  options.image_width = 32;
  options.image_channels = 1;
  AttentionTraits traits = make_smallest(options)->traits();
  options.turn = 1;  // the other pattern, where layers take turns
  traits.state_growth =
      std::max(traits.state_growth, make_smallest(options)->traits().state_growth);
  return traits;
}

// Its settings as flags with their defaults, and the variants that `linea verify` checks.
void show_attention(const AttentionEntry& entry) {
  const AttentionTraits traits = traits_of(entry);
  print_field("attention", entry.name + ": " + entry.summary);
  print_field("", "source: " + entry.source);
  if (!traits.details.empty()) print_field("", traits.details + " (of 32 x 32 positions)");
  if (!traits.not_causal.empty()) print_field("", "not causal: " + traits.not_causal);
  if (traits.not_causal.empty())
    print_field("", traits.state_growth == 0
                        ? "state: of fixed size"
                        : fmt::format("state: grows by {:.3g} keys and values a "
                                      "position",
                                      traits.state_growth / 2));
  std::vector<std::string> more;
  if (traits.causal_only) more.push_back("causal only");
  if (traits.rotary != Rotary::none) more.push_back("takes rotary positions");
  if (entry.cpu_only) more.push_back("on a CPU only");
  if (!more.empty()) print_field("", fmt::format("{}", fmt::join(more, "; ")));
  for (const Setting& setting : entry.settings) {
    std::string line = fmt::format("            --{} {:<10}  ", flag_name(setting.key),
                                   to_string(setting.initial));
    const size_t help = line.size();
    line += setting.help;
    if (!setting.choices.empty()) line += fmt::format(": {}", fmt::join(setting.choices, ", "));
    const auto& [key, values] = setting.only_with;
    if (!key.empty())
      line += fmt::format(" (with --{} {})", flag_name(key), fmt::join(values, " or "));
    print_wrapped(line, help);
  }
  std::vector<std::string> labels;
  for (const AttentionOptions& variant : entry.variant_options())
    labels.push_back(label_of(variant));
  print_field("", fmt::format("verified: {}", fmt::join(labels, "; ")));
}

Json mechanisms() {
  Json all = Json::array();
  for (const AttentionEntry& entry : attentions()) {
    const AttentionTraits traits = traits_of(entry);
    Json settings = Json::object();
    for (const Setting& setting : entry.settings)
      std::visit([&](const auto& value) { settings[setting.key] = value; }, setting.initial);
    all.push_back({{"name", entry.name},
                   {"summary", entry.summary},
                   {"source", entry.source},
                   {"settings", settings},
                   {"causal", traits.not_causal.empty()},
                   {"bidirectional", !traits.causal_only},
                   {"rotary", traits.rotary != Rotary::none},
                   {"cuda", !entry.cpu_only},
                   {"state_growth", traits.state_growth},
                   {"details", traits.details}});
  }
  return all;
}

void show_build(bool json) {
  const BlasInfo blas = blas_info();
  // Under mpirun, how fast its messages are: all ranks take part.
  const auto network = ranks().alone() ? bench::Network() : bench::measure_network();
  const std::vector<std::string> devices = cuda_devices();
  const std::string bf16 = bf16_isa() == nullptr ? "none" : bf16_isa();
  if (json) {
    Json result = {{"version", version()},       {"blas", blas.version},
                   {"kernel", blas.kernel},      {"threads", context().threads},
                   {"isa", cpu_isa()},           {"bf16", bf16},
                   {"cuda_devices", devices},    {"attentions", attention_names()},
                   {"mechanisms", mechanisms()}, {"presets", preset_names()}};
    if (!ranks().alone())
      result["ranks"] = {{"count", ranks().size()},
                         {"hosts", ranks().hosts()},
                         {"library", ranks().library()},
                         {"alpha_s", network.alpha},
                         {"beta_bytes_per_s", network.beta}};
    return print_json_line(result);
  }
  print_wrapped("linea " + version(), kIndent);
  print_field("BLAS", fmt::format("{}; kernels {}; {}; {}", blas.version, blas.kernel, blas.flavor,
                                  plural(context().threads, "thread")));
  print_field("isa", fmt::format("{} (of {}; LINEA_ISA selects)", cpu_isa(),
                                 fmt::join(all_cpu_isas(), ", ")));
  print_field("bf16", all_bf16_isas().empty() ? bf16
                                              : fmt::format("{} (of {}; LINEA_ISA selects)", bf16,
                                                            fmt::join(all_bf16_isas(), ", ")));
  print_field("devices", built_with_cuda() ? "cpu" : "cpu (this build has no CUDA backend)");
  for (const std::string& line : devices) print_field("", line);
  if (!devices.empty())
    for (const std::string& line : rates_of_cuda()) print_field("", "cuda:0 " + line);
  if (!ranks().alone())
    print_field("ranks", fmt::format("{} on {}, {}; a message takes {:.1f} us + 1 s per {:.1f} GB",
                                     ranks().size(), plural(ranks().hosts(), "host"),
                                     ranks().library(), 1e6 * network.alpha, network.beta / 1e9));
  for (const AttentionEntry& entry : attentions()) show_attention(entry);
  print_field("presets", fmt::format("{}", fmt::join(preset_names(), ", ")));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

void show_tensors(const std::string& path, bool json) {
  const SafetensorsFile file = SafetensorsFile::open(path, ElementTypes::all);
  for (const std::string& warning : file.warnings())
    std::fprintf(stderr, "linea: %s\n", warning.c_str());
  if (json) {
    Json tensors = Json::array();
    for (const SafetensorsEntry& entry : file.entries())
      tensors.push_back({{"name", entry.name}, {"dtype", entry.dtype}, {"shape", entry.shape}});
    return print_json_line({{"metadata", file.metadata()}, {"tensors", tensors}});
  }
  size_t width = 5;
  std::set<std::string> unread;
  for (const SafetensorsEntry& entry : file.entries()) {
    width = std::max(width, entry.dtype.size());
    if (!can_read_elements(entry.dtype)) unread.insert(entry.dtype);
  }
  for (const SafetensorsEntry& entry : file.entries())
    print_wrapped(
        fmt::format("{:<{}} {} {}", entry.dtype, width, shape_text(entry.shape), entry.name),
        width + 1);
  for (const auto& [key, value] : file.metadata())
    print_wrapped(fmt::format("metadata {}: {}", key, value), 9);
  std::puts(plural(static_cast<int64_t>(file.entries().size()), "tensor").c_str());
  if (!unread.empty())
    print_wrapped(fmt::format("Linea does not read tensors of type {}", fmt::join(unread, ", ")),
                  0);
}

// Whole numbers without a fraction.
Json to_json(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

// null for what is not known yet.
Json number_or_null(int64_t value) { return value == 0 ? Json() : Json(value); }

// The numbers of a line of metrics.jsonl; null for null, and for a number that was not finite.
Json to_json(const MetricsLine* line) {
  if (line == nullptr) return nullptr;
  Json result = {{"step", line->step}};
  for (const auto& [name, value] : line->values) result[name] = to_json(value);
  return result;
}

// "classes      0 cat, 1 dog"
void show_classes(const std::vector<std::string>& names) {
  std::vector<std::string> classes;
  for (size_t i = 0; i < names.size(); ++i)
    classes.push_back(fmt::format("{} {}", i, printable(names[i])));
  if (!names.empty()) print_field("classes", fmt::format("{}", fmt::join(classes, ", ")));
}

// Shows results in metrics.jsonl and the samples of a run, if there are any.
void show_results(const RunHistory& history, const TaskShape& shape) {
  if (const MetricsLine* line = history.last("loss"))
    print_field(
        "training",
        fmt::format("step {}: loss {:.4f}, {} tokens/s, {} in all", line->step, line->value("loss"),
                    format_count(line->value("tokens_per_s")), format_duration(history.seconds())));
  if (const MetricsLine* line = history.last("val_loss"))
    print_field("validation", describe_validation(*line, shape));
  if (const MetricsLine* line = history.best_validation())
    print_field("best", describe_validation(*line, shape));
  if (const MetricsLine* line = history.best_validation(Weights::average))
    print_field("best (ema)", fmt::format("step {}: loss {:.4f} of the averaged weights",
                                          line->step, line->value("val_loss_ema")));
  if (const std::string note = history.uncompared_note(); !note.empty()) print_field("", note);
  if (const MetricsLine* line = history.whole_validation())
    print_field("whole split", describe_validation(*line, shape, "whole_val_"));
  const std::string written = last_written(history.folder);
  if (!written.empty()) print_field("written", written);
  const std::vector<std::string> samples = sample_files(history.folder);
  if (!samples.empty())
    print_field("samples",
                printable(samples.back()) +
                    (samples.size() == 1 ? "" : fmt::format(" and {} more", samples.size() - 1)));
}

// The run of a checkpoint folder, RUN/checkpoints/step-...; any other folder itself.
fs::path run_of(const fs::path& folder) {
  const fs::path clean = (folder / "").parent_path();
  const fs::path run = clean.parent_path().parent_path();
  return is_run(run) && !is_run(clean) ? run : clean;
}

// A run without a checkpoint has settings and perhaps a history, but no model.
SavedModel without_model(const fs::path& run) {
  SavedModel saved;
  saved.config = read_run_config(run);
  if (!find_task(saved.config.task).has_vocabulary)  // on which the shape depends
    saved.shape = task_shape(task_options(saved.config, ""));
  return saved;
}

// By the settings of the run, which a resumed one may have changed since its checkpoint.
std::string state_of_run(const RunHistory& history, const RunConfig& saved) try {
  return is_run(history.folder) ? state_of(history, read_run_config(history.folder)) : "";
} catch (const Error&) {
  return state_of(history, saved);
}

void show_run(const std::string& path, bool json) {
  const bool has_model = !is_run(path) || !list_checkpoints(path).empty();
  const SavedModel saved = has_model ? load_model(path) : without_model(path);
  print_note(saved.note);
  const RunHistory history = read_history(run_of(path));
  const std::string attention = label_of(attention_options(saved.config));
  const std::string state = state_of_run(history, saved.config);
  const int64_t parameters = has_model ? count_elements(saved.model->parameters()) : -1;
  const std::vector<std::string> names = saved.shape.classes > 0
                                             ? class_names(saved.config.task, saved.vocabulary)
                                             : std::vector<std::string>();
  if (json)
    return print_json_line({{"step", saved.step},
                            {"steps", saved.config.steps},
                            {"state", state.empty() ? Json() : Json(state)},
                            {"attention", attention},
                            {"parameters", has_model ? Json(parameters) : Json()},
                            {"vocab_size", number_or_null(saved.shape.vocab_size)},
                            {"length", number_or_null(saved.shape.length)},
                            {"classes", names},
                            {"training", to_json(history.last("loss"))},
                            {"validation", to_json(history.last("val_loss"))},
                            {"best", to_json(history.best_validation())},
                            {"best_ema", to_json(history.best_validation(Weights::average))},
                            {"uncompared_steps", history.uncompared()},
                            {"elapsed_s", history.seconds()},
                            {"written", last_written(history.folder)},
                            {"samples", sample_files(history.folder)},
                            {"config", settings_json(saved.config)}});
  print_field("step", fmt::format("{} of {}{}", saved.step, saved.config.steps,
                                  has_model ? "" : ": no checkpoint yet"));
  if (!state.empty()) print_field("state", state);
  print_field("attention", attention);
  for (const std::string& line : layers_by_attention(saved.config)) print_field("", line);
  if (has_model)
    print_field("parameters",
                fmt::format("{} in {} tensors", format_count(static_cast<double>(parameters)),
                            saved.model->parameters().size()));
  if (saved.shape.vocab_size > 0)
    print_field("tokens", fmt::format("{}, length {}", saved.shape.vocab_size, saved.shape.length));
  show_classes(names);
  show_results(history, saved.shape);
  std::puts("");
  std::istringstream settings(to_toml(saved.config));
  for (std::string line; std::getline(settings, line);) print_wrapped(line, 2);
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
