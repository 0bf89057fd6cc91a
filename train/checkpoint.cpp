#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "data/files.h"
#include "data/images_task.h"
#include "data/safetensors.h"
#include "data/text.h"
#include "tensor/context.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFormat = "linea-1";
constexpr const char* kPrefix = "step-";

// The step of "step-00001000"; -1 for any other name.
int64_t step_of(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return -1;
  int64_t step = -1;
  const char *begin = name.data() + std::string(kPrefix).size(), *end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, step);
  return error == std::errc() && rest == end ? step : -1;
}

// Checkpoint folders of a run, oldest first.
std::vector<std::pair<int64_t, fs::path>> checkpoints_of(const fs::path& run) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "checkpoints", error)) {
    const int64_t step = step_of(entry.path().filename().string());
    if (step >= 0 && entry.is_directory(error)) found.emplace_back(step, entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// What a model has under a name, by parameters and buffers alike.
std::vector<NamedTensor> tensors_of(const Transformer& model) {
  std::vector<NamedTensor> result;
  for (const Parameter& parameter : model.parameters()) result.push_back({parameter.name, parameter.var.value()});
  for (const Buffer& buffer : model.buffers()) result.push_back({buffer.name, buffer.tensor});
  return result;
}

// Copies the tensor `own.name` of a file into own.tensor.
void load_tensor(const SafetensorsFile& file, const std::string& path, const NamedTensor& own) {
  if (!file.contains(own.name))
    fail(ErrorKind::input, "{}: the tensor {} of this model is missing: the file is of another architecture", path,
         own.name);
  const Tensor tensor = file.read(own.name);
  if (tensor.shape() != own.tensor.shape() || tensor.dtype() != own.tensor.dtype())
    fail(ErrorKind::input, "{}: the tensor {} is {} {}, but this model needs {} {}", path, own.name,
         name_of(tensor.dtype()), tensor.shape().str(), name_of(own.tensor.dtype()), own.tensor.shape().str());
  std::vector<char> bytes(tensor.bytes());
  tensor.read(bytes.data());
  own.tensor.write(bytes.data());
}

void load_tensors(const SafetensorsFile& file, const std::string& path, Transformer& model) {
  const std::vector<NamedTensor> tensors = tensors_of(model);
  for (const NamedTensor& tensor : tensors) load_tensor(file, path, tensor);
  if (file.entries().size() != tensors.size())
    fail(ErrorKind::input, "{}: {} tensors, but this model has {}: the file is of another architecture", path,
         file.entries().size(), tensors.size());
  model.buffers_changed();
}

// A damaged config must not ask for memory, or time, that the file's own weights show to be wrong.
void check_size(const SafetensorsFile& file, const RunConfig& config) {
  double stored = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    double count = 1;
    for (const auto size : entry.shape) count *= static_cast<double>(size);
    stored += count;
  }
  const double dim = static_cast<double>(config.dim), ffn = static_cast<double>(config.ffn);
  if (config.task == "retrieval") return;  // one bare attention, without these layers
  const double needed = static_cast<double>(config.layers) * (4 * dim * dim + 2 * dim * ffn);
  if (needed > stored)
    fail(ErrorKind::input,
         "{} layers of dim {} and ffn {} have {} weights, but the file has {}: it is of another architecture",
         config.layers, config.dim, config.ffn, needed, stored);
}

std::string metadata_at(const SafetensorsFile& file, const std::string& path, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    fail(ErrorKind::input, "{} is not a model of Linea: its metadata has no '{}'", path, key);
  return found->second;
}

SafetensorsFile open_model(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const std::string format = metadata_at(file, path, "format");
  if (format != kFormat)
    fail(ErrorKind::input, "{} is of the format '{}'; this program reads '{}'", path, format, kFormat);
  return file;
}

std::string vocabulary_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find("vocabulary");
  return found == file.metadata().end() ? "" : found->second;
}

// Symbol s of a text is its s-th character: weights mean nothing for a text of others, even of as many.
void check_vocabulary(const SafetensorsFile& file, const std::string& path, const std::string& vocabulary,
                      const std::string& advice) {
  const std::string saved = vocabulary_of(file);
  if (saved == vocabulary) return;
  if (saved.empty()) fail(ErrorKind::input, "{} was not trained on text, as this run is; {}", path, advice);
  if (vocabulary.empty()) fail(ErrorKind::input, "{} was trained on text, as this run is not; {}", path, advice);
  if (is_class_list(saved) || is_class_list(vocabulary))
    fail(ErrorKind::input, "{} was trained with the classes {}, this run has {}; {}", path, saved, vocabulary, advice);
  const Vocabulary trained = Vocabulary::parse(saved), read = Vocabulary::parse(vocabulary);
  fail(ErrorKind::input, "{} was trained on a text of {} symbols, this text has {}: {}; {}", path, trained.size(),
       read.size(), read.difference_from(trained), advice);
}

nlohmann::json parse_json(const std::string& text, const std::string& path) {
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_object()) fail(ErrorKind::input, "{} is not a JSON object", path);
  return parsed;
}

int64_t integer_at(const nlohmann::json& object, const char* key, const std::string& path) {
  if (!object.contains(key) || !object[key].is_number_integer())
    fail(ErrorKind::input, "{} has no whole number '{}'", path, key);
  return object[key].get<int64_t>();
}

// The number under `key`, 0 where there is none.
double number_at(const nlohmann::json& object, const char* key, const std::string& path) {
  if (!object.contains(key)) return 0;
  if (!object[key].is_number()) fail(ErrorKind::input, "{}: its '{}' is no number", path, key);
  return object[key].get<double>();
}

// A checkpoint that could not be finished would only hold space that is short.
struct RemoveFolder {
  fs::path folder;
  ~RemoveFolder() {
    std::error_code error;
    fs::remove_all(folder, error);
  }
};

fs::path model_file_of(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) fail(ErrorKind::input, "{} does not exist", path.string());
  if (!fs::is_directory(path, error)) return path;
  if (fs::exists(path / "model.safetensors", error)) return path / "model.safetensors";
  return newest_checkpoint(path) / "model.safetensors";
}

}  // namespace

fs::path newest_checkpoint(const fs::path& run) {
  const auto found = checkpoints_of(run);
  if (found.empty())
    fail(ErrorKind::input, "{} holds no checkpoint: it is not a run of linea train, or stopped before its first save",
         run.string());
  return found.back().second;
}

void save_checkpoint(const fs::path& run, const RunState& at, const RunConfig& config,
                     const std::string& vocabulary, const Transformer& model,
                     const Optimizer& optimizer, int64_t keep) {
  const std::string name = fmt::format("{}{:08}", kPrefix, at.step);
  const fs::path folder = run / "checkpoints", target = folder / name, draft = folder / (".tmp-" + name);
  std::error_code error;
  fs::remove_all(draft, error);  // of a process that was killed
  make_folders(draft.string());
  const RemoveFolder unless_renamed{draft};

  const std::vector<NamedTensor> weights = tensors_of(model);
  std::vector<NamedTensor> moments;
  for (const Optimizer::Moment& moment : optimizer.moments()) moments.push_back({moment.name, moment.tensor});
  std::map<std::string, std::string> metadata = {
      {"format", kFormat}, {"config", to_toml(config)}, {"step", std::to_string(at.step)}};
  if (!vocabulary.empty()) metadata["vocabulary"] = vocabulary;
  write_safetensors((draft / "model.safetensors").string(), weights, metadata);
  write_safetensors((draft / "optimizer.safetensors").string(), moments, {});
  const nlohmann::json state = {{"format", kFormat},
                                {"step", at.step},
                                {"updates", optimizer.updates()},
                                {"losses", at.losses},
                                {"loss_sum", at.loss_sum},
                                {"threads", context().threads},
                                {"device", context().device.str()},
                                {"blas", blas_info().version},
                                {"blas_kernel", blas_info().kernel}};
  write_file_atomically((draft / "state.json").string(), state.dump(1) + "\n");
  fs::remove_all(target, error);
  rename_durably(draft, target);

  const auto kept = checkpoints_of(run);
  for (size_t i = 0; keep > 0 && i + static_cast<size_t>(keep) < kept.size(); ++i)
    fs::remove_all(kept[i].second, error);
}

SavedModel load_model(const fs::path& path) {
  const std::string file_path = model_file_of(path).string();
  const SafetensorsFile file = open_model(file_path);
  const std::string config = metadata_at(file, file_path, "config"), step = metadata_at(file, file_path, "step");
  SavedModel saved;
  const auto [rest, problem] = std::from_chars(step.data(), step.data() + step.size(), saved.step);
  if (problem != std::errc() || rest != step.data() + step.size())
    fail(ErrorKind::input, "{}: its 'step' is '{}', no whole number", file_path, step);
  try {
    saved.config = config_from_toml(config, "its config");
    saved.vocabulary = vocabulary_of(file);
    saved.shape = task_shape(task_options(saved.config, saved.vocabulary));
    check_size(file, saved.config);
    saved.model = std::make_unique<Transformer>(model_config(saved.config, saved.shape));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage && error.kind() != ErrorKind::input) throw;
    fail(ErrorKind::input, "{}: {}", file_path, error.what());
  }
  load_tensors(file, file_path, *saved.model);
  return saved;
}

std::string saved_settings(const fs::path& run) {
  const std::string path = model_file_of(run).string();
  return metadata_at(open_model(path), path, "config");
}

void load_initial_weights(const fs::path& run, Transformer& model, const std::string& vocabulary) {
  const std::string path = model_file_of(run).string();
  const SafetensorsFile file = open_model(path);
  check_vocabulary(file, path, vocabulary, "train on a text of the same symbols, or leave out --init-from");
  const RunConfig config = config_from_toml(metadata_at(file, path, "config"), path);
  const AttentionOptions& attention = model.config().attention;
  const bool same = attention.attention == config.attention;
  const auto fits = [&](const NamedTensor& own) {
    return file.contains(own.name) && file.entry(own.name).shape == own.tensor.shape().sizes();
  };
  for (const Parameter& parameter : model.parameters()) {
    const NamedTensor own{parameter.name, parameter.var.value()};
    const bool of_gate = own.name.find(".gate.") != std::string::npos;
    if (of_gate && attention.rule != config.rule) continue;  // what one rule forgets by, another writes by
    const bool of_attention = own.name.find(".attention.") != std::string::npos || of_gate;
    if (!of_attention || (same ? file.contains(own.name) : fits(own))) load_tensor(file, path, own);
  }
  if (same) {
    const bool other_projection = attention.projection != config.projection;
    for (const Buffer& buffer : model.buffers()) {
      const bool directions = buffer.name.find(".omega") != std::string::npos;
      if (directions && other_projection) continue;  // drawn in another way than this run asks for
      if (fits({buffer.name, buffer.tensor})) load_tensor(file, path, {buffer.name, buffer.tensor});
    }
    model.buffers_changed();
  }
  if (config.attention == "softmax") model.scale_queries_from_softmax();
}

RunState restore_checkpoint(const fs::path& run, Transformer& model, Optimizer& optimizer,
                            const std::string& vocabulary) {
  const fs::path folder = newest_checkpoint(run);
  const std::string model_path = (folder / "model.safetensors").string();
  const SafetensorsFile weights = open_model(model_path);
  check_vocabulary(weights, model_path, vocabulary, "go on with the text that the run began with");
  load_tensors(weights, model_path, model);

  const SafetensorsFile file = SafetensorsFile::open((folder / "optimizer.safetensors").string());
  std::vector<Optimizer::Moment> moments;
  for (const SafetensorsEntry& entry : file.entries()) moments.push_back({entry.name, file.read(entry.name)});

  const std::string state_path = (folder / "state.json").string();
  const nlohmann::json state = parse_json(read_file(state_path), state_path);
  optimizer.restore(moments, integer_at(state, "updates", state_path));
  return {integer_at(state, "step", state_path), static_cast<int64_t>(number_at(state, "losses", state_path)),
          number_at(state, "loss_sum", state_path)};
}

}  // namespace linea
