#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "data/files.h"
#include "data/hash.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "data/tasks/image_folder_task.h"
#include "data/vocabulary.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "train/out_of_memory_hint.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFormat = "linea-2";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";

// What a model has under a name, by parameters and buffers alike.
std::vector<NamedTensor> tensors_of(const Model& model) {
  std::vector<NamedTensor> result;
  for (const Parameter& parameter : model.parameters())
    result.push_back({parameter.name, parameter.var.value()});
  for (const Buffer& buffer : model.buffers()) result.push_back({buffer.name, buffer.tensor});
  return result;
}

// Copies the tensor `own.name` of a file into own.tensor.
void load_tensor(const SafetensorsFile& file, const std::string& path, const NamedTensor& own) {
  if (!file.contains(own.name))
    fail(ErrorKind::input,
         "{}: the tensor {} of this model is missing: the file is of another architecture", path,
         own.name);
  const Tensor tensor = file.read(own.name);
  if (tensor.shape() != own.tensor.shape() || tensor.dtype() != own.tensor.dtype())
    fail(ErrorKind::input, "{}: the tensor {} is {} {}, but this model needs {} {}", path, own.name,
         name_of(tensor.dtype()), tensor.shape().str(), name_of(own.tensor.dtype()),
         own.tensor.shape().str());
  std::vector<char> bytes(tensor.bytes());
  tensor.read(bytes.data());
  own.tensor.write(bytes.data());
}

void load_tensors(const SafetensorsFile& file, const std::string& path, Model& model) {
  const std::vector<NamedTensor> tensors = tensors_of(model);
  for (const NamedTensor& tensor : tensors) load_tensor(file, path, tensor);
  if (file.entries().size() != tensors.size())
    fail(ErrorKind::input,
         "{}: {} tensors, but this model has {}: the file is of another architecture", path,
         file.entries().size(), tensors.size());
  model.buffers_changed();
}

// A damaged config must not ask for memory, or time, that the file's own weights show to be wrong.
void check_size(const SafetensorsFile& file, const RunConfig& config, const TaskShape& shape) {
  double stored = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    double count = 1;
    for (const auto axis : entry.shape) count *= static_cast<double>(axis);
    stored += count;
  }
  const double dim = static_cast<double>(config.dim), ffn = static_cast<double>(config.ffn);
  // What one tensor of the file holds, or several do together.
  const auto fits = [&](const char* what, double count) {
    if (count > stored)
      fail(ErrorKind::input,
           "{} have {} numbers at dim {}, but the file has {}: it is of another architecture", what,
           count, config.dim, stored);
  };
  fits("its tokens", static_cast<double>(shape.input_vocab_size) * dim);
  if (config.positions == "learned" && config.task != "retrieval")
    fits("its positions", static_cast<double>(shape.length) * dim);
  if (config.task == "retrieval") return;  // one bare attention, without these layers
  const double needed = static_cast<double>(config.layers) * (4 * dim * dim + 2 * dim * ffn);
  if (needed > stored)
    fail(ErrorKind::input,
         "{} layers of dim {} and ffn {} have {} weights, but the file has {}: it is of another "
         "architecture",
         config.layers, config.dim, config.ffn, needed, stored);
}

std::string metadata_at(const SafetensorsFile& file, const std::string& path,
                        const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    fail(ErrorKind::input, "{} is not a model of Linea: its metadata has no '{}'", path, key);
  return found->second;
}

SafetensorsFile open_model(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const std::string format = metadata_at(file, path, "format");
  if (format != kFormat)
    fail(ErrorKind::input,
         "{}: checkpoint format '{}' is not supported; this version reads '{}': train the model "
         "again",
         path, format, kFormat);
  return file;
}

std::string vocabulary_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find("vocabulary");
  return found == file.metadata().end() ? "" : found->second;
}

// "the classes cat, dog"
std::string classes_text(const std::string& vocabulary) {
  if (!is_class_list(vocabulary)) return "no names of classes";
  return fmt::format("the classes {}", fmt::join(parse_classes(vocabulary), ", "));
}

// Token s of a text is its s-th character: weights mean nothing for a text of others, even of as
// many.
void check_vocabulary(const SafetensorsFile& file, const std::string& path,
                      const std::string& vocabulary, const std::string& hint) {
  const std::string saved = vocabulary_of(file);
  if (saved == vocabulary) return;
  if (is_class_list(saved) || is_class_list(vocabulary))
    fail(ErrorKind::input,
         "{} was trained with {}, this run has {}; take a folder of the same classes", path,
         classes_text(saved), classes_text(vocabulary));
  if (saved.empty())
    fail(ErrorKind::input, "{} was not trained on text, as this run is; {}", path, hint);
  if (vocabulary.empty())
    fail(ErrorKind::input, "{} was trained on text, as this run is not; {}", path, hint);
  const Vocabulary trained = Vocabulary::parse(saved), read = Vocabulary::parse(vocabulary);
  fail(ErrorKind::input, "{} was trained on a text of {} tokens, this text has {}: {}; {}", path,
       trained.size(), read.size(), read.difference_from(trained), hint);
}

nlohmann::json json_object(const std::string& text, const std::string& path) {
  const nlohmann::json parsed = parse_json(text);
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

fs::path model_file_of(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) fail(ErrorKind::input, "{} does not exist", path.string());
  if (!fs::is_directory(path, error)) return path;
  if (fs::exists(path / kModelFile, error)) {
    const std::string problem =
        fs::exists(path / kManifestFile, error) ? checkpoint_problem({-1, path}) : "";
    if (!problem.empty()) fail(ErrorKind::input, "{}", problem);
    return path / kModelFile;
  }
  return newest_checkpoint(path).path / kModelFile;
}

std::string program_hash() {
  static const std::string hash = file_hash("/proc/self/exe");
  return hash;
}

// What the bits of a step depend on besides settings and data, by its name in state.json.
std::vector<std::pair<std::string, std::string>> circumstances() {
  const BlasInfo blas = blas_info();
  return {{"program", program_hash()},        {"blas", blas.version},
          {"blas_kernel", blas.kernel},       {"vectors", cpu_isa()},
          {"device", context().device.str()}, {"threads", std::to_string(context().threads)}};
}

nlohmann::ordered_json state_json(const RunState& at, const Optimizer& optimizer) {
  const GuardState& guard = at.guard;
  nlohmann::ordered_json state = {{"format", kFormat},
                                  {"step", at.step},
                                  {"updates", optimizer.updates()},
                                  {"losses", at.losses},
                                  {"loss_sum", at.loss_sum},
                                  {"skipped", guard.skipped},
                                  {"bad_in_a_row", guard.bad_in_a_row},
                                  {"spikes_in_a_row", guard.spikes_in_a_row},
                                  {"usual_of", guard.usual_of},
                                  {"usual_loss", guard.usual_loss},
                                  {"usual_norm", guard.usual_norm},
                                  {"data", at.data}};
  for (const auto& [name, value] : circumstances()) state["from_op"][name] = value;
  return state;
}

RunState state_from(const nlohmann::json& state, const std::string& path) {
  const auto count = [&](const char* key) { return integer_at(state, key, path); };
  const auto number = [&](const char* key) { return number_at(state, key, path); };
  RunState at{count("step"), count("losses"), number("loss_sum"), {}, ""};
  at.guard = {count("skipped"),  count("bad_in_a_row"), count("spikes_in_a_row"),
              count("usual_of"), number("usual_loss"),  number("usual_norm")};
  if (!state.contains("data") || !state["data"].is_string() || !state.contains("from_op") ||
      !state["from_op"].is_object())
    fail(ErrorKind::input, "{} says not of which data and program it is", path);
  at.data = state["data"].get<std::string>();
  return at;
}

using Note = std::function<void(const std::string&)>;

void note_circumstances(const nlohmann::json& from_op, const Note& note) {
  std::vector<std::string> changes;
  for (const auto& [name, value] : circumstances()) {
    const auto before = from_op.find(name);
    const std::string was =
        before != from_op.end() && before->is_string() ? before->get<std::string>() : "unknown";
    if (was != value) changes.push_back(fmt::format("{} was {}, is {}", name, was, value));
  }
  if (!changes.empty())
    note(fmt::format("goes on, but not to the same bits as without a stop: {}",
                     fmt::join(changes, "; ")));
}

// Those that change what is learned.
void note_settings(const RunConfig& before, const RunConfig& now, const Note& note) {
  const std::set<std::string> harmless = {"data",       "threads",      "eval_every",
                                          "save_every", "sample_every", "keep_last",
                                          "keep_every", "max_time",     "tensorboard"};
  std::map<std::string, std::string> was;
  visit_settings(before, [&](const char* key, const auto& value, const char*, const char*) {
    was[key] = fmt::format("{}", value);
  });
  std::vector<std::string> changes;
  visit_settings(now, [&](const char* key, const auto& value, const char*, const char*) {
    const std::string is = fmt::format("{}", value);
    if (is != was[key] && harmless.count(key) == 0)
      changes.push_back(fmt::format("{} was {}, is {}", key, was[key], is));
  });
  if (!changes.empty())
    note(fmt::format("goes on with other settings: {}", fmt::join(changes, "; ")));
}

}  // namespace

void save_checkpoint(const fs::path& run, const RunState& at, const RunConfig& config,
                     const std::string& vocabulary, const Model& model, const Optimizer& optimizer,
                     const KeepRule& keep) {
  const std::string settings = to_toml(config);
  std::map<std::string, std::string> metadata = {
      {"format", kFormat}, {"config", settings}, {"step", std::to_string(at.step)}};
  if (!vocabulary.empty()) metadata["vocabulary"] = vocabulary;
  std::vector<NamedTensor> moments;
  for (const Optimizer::Moment& moment : optimizer.moments())
    moments.push_back({moment.name, moment.tensor});

  CheckpointDraft draft(run, at.step);
  draft.add(kModelFile, write_safetensors(draft.path(kModelFile), tensors_of(model), metadata));
  draft.add(kOptimizer, write_safetensors(draft.path(kOptimizer), moments, {}));
  draft.add(kState, write_file_atomically(draft.path(kState),
                                          json_text(state_json(at, optimizer), 1) + "\n"));
  draft.commit(settings);
  prune_checkpoints(run, at.step, keep);
}

namespace {

SavedModel read_model(const std::string& file_path, const std::string& dtype) {
  const SafetensorsFile file = open_model(file_path);
  const std::string config = metadata_at(file, file_path, "config"),
                    step = metadata_at(file, file_path, "step");
  SavedModel saved;
  const auto [rest, problem] = std::from_chars(step.data(), step.data() + step.size(), saved.step);
  if (problem != std::errc() || rest != step.data() + step.size())
    fail(ErrorKind::input, "{}: its 'step' is '{}', no whole number", file_path, step);
  const bool halves = dtype == "bf16" && context().device.kind == DeviceKind::cuda;
  bool reversible = false;
  try {
    saved.config = config_from_toml(config, "its config");
    reversible = saved.config.reversible;
    if (!dtype.empty() && !(reversible && halves)) saved.config.dtype = dtype;
    saved.vocabulary = vocabulary_of(file);
    saved.shape = task_shape(task_options(saved.config, saved.vocabulary));
    check_size(file, saved.config, saved.shape);
    saved.model = make_model(model_config(saved.config, saved.shape));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage && error.kind() != ErrorKind::input) throw;
    fail(ErrorKind::input, "{}: {}", file_path, error.what());
  }
  require(!(reversible && halves),
          "{} is of reversible layers, which bf16 would take the digits of; say --dtype fp32",
          file_path);
  load_tensors(file, file_path, *saved.model);
  return saved;
}

}  // namespace

SavedModel load_model(const fs::path& path, const std::string& dtype) {
  const std::string file_path = model_file_of(path).string();
  return with_model_memory(nullptr, machine_hint(), [&] { return read_model(file_path, dtype); });
}

std::string saved_settings(const fs::path& run) {
  const std::string path = model_file_of(run).string();
  return metadata_at(open_model(path), path, "config");
}

namespace {

// Words in the names of tensors that mean something else under the settings of another attention:
// what one update rule forgets by, another writes by.
std::vector<std::string> redefined_tensors(const RunConfig& source, const AttentionOptions& now) {
  const AttentionOptions before = attention_options(source);
  const Settings was = complete_settings(before), is = complete_settings(now);
  std::vector<std::string> result;
  for (const std::string& name : {before.name, now.name})
    for (const Setting& setting : find_attention(name).settings)
      if (!setting.defines.empty() && (!was.has(setting.key) || !is.has(setting.key) ||
                                       was.at(setting.key) != is.at(setting.key)))
        result.push_back(setting.defines);
  return result;
}

bool names_any(const std::vector<std::string>& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

}  // namespace

void load_initial_weights(const fs::path& run, Model& model, const std::string& vocabulary) {
  const std::string path = model_file_of(run).string();
  const SafetensorsFile file = open_model(path);
  check_vocabulary(file, path, vocabulary,
                   "train on a text of the same tokens, or leave out --init-from");
  const RunConfig config = config_from_toml(metadata_at(file, path, "config"), path);
  const bool same = model.config().attention.name == config.attention;
  const std::vector<std::string> redefined = redefined_tensors(config, model.config().attention);
  const auto fits = [&](const NamedTensor& own) {
    return file.contains(own.name) && file.entry(own.name).shape == own.tensor.shape().sizes();
  };
  for (const Parameter& parameter : model.parameters()) {
    const NamedTensor own{parameter.name, parameter.var.value()};
    if (names_any(redefined, own.name)) continue;
    const bool of_gate = own.name.find(".gate.") != std::string::npos;
    const bool of_attention = own.name.find(".attention.") != std::string::npos || of_gate;
    if (!of_attention || (same ? file.contains(own.name) : fits(own))) load_tensor(file, path, own);
  }
  if (same) {
    for (const Buffer& buffer : model.buffers()) {
      if (names_any(redefined, buffer.name)) continue;
      if (fits({buffer.name, buffer.tensor})) load_tensor(file, path, {buffer.name, buffer.tensor});
    }
    model.buffers_changed();
  }
  if (find_attention(config.attention).is_softmax) model.scale_queries_from_softmax();
}

RunState restore_checkpoint(const fs::path& run, Model& model, Optimizer& optimizer,
                            const RunConfig& config, const std::string& vocabulary,
                            const std::string& fingerprint,
                            const std::function<void(const std::string&)>& note) {
  const fs::path folder = newest_checkpoint(run).path;
  const std::string model_path = (folder / kModelFile).string(),
                    state_path = (folder / kState).string();
  const SafetensorsFile weights = open_model(model_path);
  check_vocabulary(weights, model_path, vocabulary, "go on with the text that the run began with");
  load_tensors(weights, model_path, model);

  const nlohmann::json state = json_object(read_file(state_path), state_path);
  const RunState at = state_from(state, state_path);
  if (at.data != fingerprint)
    fail(ErrorKind::input,
         "{}: the run began with other data (SHA-256 {} instead of {}); go on with those, or begin "
         "another run with "
         "--init-from {}",
         state_path, at.data, fingerprint, run.string());

  const SafetensorsFile file = SafetensorsFile::open((folder / kOptimizer).string());
  std::vector<Optimizer::Moment> moments;
  for (const SafetensorsEntry& entry : file.entries())
    moments.push_back({entry.name, file.read(entry.name)});
  optimizer.restore(moments, integer_at(state, "updates", state_path));
  note_settings(config_from_toml(metadata_at(weights, model_path, "config"), model_path), config,
                note);
  note_circumstances(state["from_op"], note);
  return at;
}

}  // namespace linea
