#include "train/run/checkpoint.h"

#include <charconv>

#include "data/files.h"
#include "tensor/context.h"
#include "train/format.h"
#include "train/model_file.h"
#include "train/run/out_of_memory_hint.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

SavedModel read_model(const std::string& path, const std::string& dtype) {
  const SafetensorsFile file = open_model_file(path);
  const std::string config = metadata_value(file, path, "config"),
                    step = metadata_value(file, path, "step");
  SavedModel saved;
  const auto [rest, problem] = std::from_chars(step.data(), step.data() + step.size(), saved.step);
  if (problem != std::errc() || rest != step.data() + step.size())
    fail(ErrorKind::input, "{}: its 'step' is '{}', not an integer", path, step);
  const bool bf16_activations = dtype == "bf16" && context().device.kind == DeviceKind::cuda;
  bool reversible = false;
  try {
    saved.config = config_from_toml(config, "its config");
    saved.note = image_windows_note(file, path, saved.config);
    reversible = saved.config.reversible;
    if (!dtype.empty() && !(reversible && bf16_activations)) saved.config.dtype = dtype;
    saved.vocabulary = saved_vocabulary(file);
    saved.shape = task_shape(task_options(saved.config, saved.vocabulary));
    const ModelConfig model = model_config(saved.config, saved.shape);
    check_model_size(file, model);
    saved.model = make_model(model);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage && error.kind() != ErrorKind::input) throw;
    fail(ErrorKind::input, "{}: {}", path, error.what());
  }
  require(!(reversible && bf16_activations),
          "{} has reversible layers, which lose their precision in bf16; use `dtype` fp32", path);
  load_tensors(file, path, *saved.model);
  return saved;
}

void restore_average(const fs::path& checkpoint, const RunConfig& before, const RunState& state,
                     WeightAverage& average, const Note& note) {
  if (before.ema == 0) {
    average.restart();
    return note(fmt::format("the average of --ema starts from the weights of step {}", state.step));
  }
  const std::string path = (checkpoint / kAverageFile).string();
  load_tensors(open_model_file(path), path, average.model());
  average.restore(state.averaged);
}

}  // namespace

void save_checkpoint(const fs::path& run, const RunState& state, const RunConfig& config,
                     const std::string& vocabulary, const Model& model, const Optimizer& optimizer,
                     const RetentionRule& retention, const Model* average) {
  const std::string settings = to_toml(config);
  std::map<std::string, std::string> metadata = {
      {"format", kCheckpointFormat}, {"config", settings}, {"step", std::to_string(state.step)}};
  if (!vocabulary.empty()) metadata["vocabulary"] = vocabulary;
  if (has_image_windows(config)) metadata[kImageWindows] = kInsideTheImage;
  std::vector<NamedTensor> moments;
  for (const Optimizer::Moment& moment : optimizer.moments())
    moments.push_back({moment.name, moment.tensor});

  CheckpointDraft draft(run, state.step);
  draft.add(kModelFile, write_safetensors(draft.path(kModelFile), model_tensors(model), metadata));
  if (average != nullptr)
    draft.add(kAverageFile,
              write_safetensors(draft.path(kAverageFile), model_tensors(*average), metadata));
  draft.add(kOptimizerFile, write_safetensors(draft.path(kOptimizerFile), moments, {}));
  draft.add(kStateFile, write_file_atomically(draft.path(kStateFile),
                                              run_state_json(state, optimizer.updates())));
  draft.commit(settings);
  prune_checkpoints(run, state.step, retention);
}

SavedModel load_model(const fs::path& path, const std::string& dtype, Weights weights) {
  const std::string file = find_model_file(path, weights).string();
  return with_model_memory(nullptr, machine_hint(), [&] { return read_model(file, dtype); });
}

std::string saved_settings(const fs::path& run) {
  const std::string path = find_model_file(run).string();
  return metadata_value(open_model_file(path), path, "config");
}

void refuse_other_format(const fs::path& run) {
  const std::vector<CheckpointFolder> checkpoints = list_checkpoints(run);
  for (auto checkpoint = checkpoints.rbegin(); checkpoint != checkpoints.rend(); ++checkpoint) {
    const std::string path = (checkpoint->path / kModelFile).string();
    try {
      if (SafetensorsFile::open(path).metadata().count("format") == 0) continue;
    } catch (const Error&) {
      continue;
    }
    open_model_file(path);
    return;
  }
}

RestoredRun restore_checkpoint(const fs::path& run, Model& model, Optimizer& optimizer,
                               const RunConfig& config, const std::string& vocabulary,
                               const std::string& fingerprint, const Note& note,
                               WeightAverage* average) {
  const fs::path folder = newest_checkpoint(run).path;
  const std::string model_path = (folder / kModelFile).string();
  const SafetensorsFile weights = open_model_file(model_path);
  check_vocabulary(weights, model_path, vocabulary, "continue with the text of the run");
  const RunConfig before =
      config_from_toml(metadata_value(weights, model_path, "config"), model_path);
  refuse_changes(before, config, run.string(), MayChange::on_resume);
  load_tensors(weights, model_path, model);
  const std::string windows = image_windows_note(weights, model_path, before);
  if (!windows.empty()) note(windows);

  const SavedState saved = read_run_state(folder / kStateFile);
  if (saved.state.data != fingerprint)
    fail(ErrorKind::input,
         "{}: the run was trained on other data (SHA-256 {} instead of {}); continue with that "
         "data, or start another run with `init_from` {}",
         (folder / kStateFile).string(), saved.state.data, fingerprint, shell_quote(run.string()));

  const SafetensorsFile file = SafetensorsFile::open((folder / kOptimizerFile).string());
  std::vector<Optimizer::Moment> moments;
  for (const SafetensorsEntry& entry : file.entries())
    moments.push_back({entry.name, file.read(entry.name)});
  optimizer.restore(moments, saved.updates);
  if (average != nullptr) restore_average(folder, before, saved.state, *average, note);
  if (saved.state.step < config.steps) {
    note_setting_changes(before, config, note);
    note_rate_change(saved.state.step, before, config, note);
    note_environment_changes(saved.environment, note);
  }
  return {saved.state, before};
}

}  // namespace linea
