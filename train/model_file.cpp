#include "train/model_file.h"

#include "data/tasks/image_folder_task.h"
#include "data/vocabulary.h"
#include "nn/embedding.h"
#include "nn/self_attention.h"
#include "train/run/checkpoint_files.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

// "the classes cat, dog"
std::string describe_classes(const std::string& vocabulary) {
  if (!is_class_list(vocabulary)) return "no class names";
  return fmt::format("the classes {}", fmt::join(parse_classes(vocabulary), ", "));
}

fs::path file_of(const fs::path& checkpoint, Weights weights) {
  if (weights == Weights::last) return checkpoint / kModelFile;
  std::error_code error;
  require(fs::exists(checkpoint / kAverageFile, error),
          "{} has no averaged weights; train with `ema`, or leave out `weights`",
          checkpoint.string());
  return checkpoint / kAverageFile;
}

}  // namespace

fs::path find_model_file(const fs::path& path, Weights weights) {
  std::error_code error;
  if (!fs::exists(path, error)) fail(ErrorKind::input, "{} does not exist", path.string());
  if (!fs::is_directory(path, error)) {
    require(weights == Weights::last || path.filename() == kAverageFile,
            "{} is one file; `weights` {} chooses a file of a run or a checkpoint", path.string(),
            kAverageWeights);
    return path;
  }
  if (fs::exists(path / kModelFile, error)) {
    const std::string problem =
        fs::exists(path / kManifestFile, error) ? checkpoint_problem({-1, path}) : "";
    if (!problem.empty()) fail(ErrorKind::input, "{}", problem);
    return file_of(path, weights);
  }
  return file_of(newest_checkpoint(path).path, weights);
}

SafetensorsFile open_model_file(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const std::string format = metadata_value(file, path, "format");
  if (format != kCheckpointFormat)
    fail(ErrorKind::input,
         "{}: checkpoint format '{}' is not supported; this version reads '{}': train the model "
         "again",
         path, format, kCheckpointFormat);
  return file;
}

std::string metadata_value(const SafetensorsFile& file, const std::string& path,
                           const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    fail(ErrorKind::input, "{} is not a model of Linea: its metadata has no '{}'", path, key);
  return found->second;
}

bool has_image_windows(const RunConfig& config) { return config.layer_convolution == "2d"; }

std::string image_windows_note(const SafetensorsFile& file, const std::string& path,
                               const RunConfig& config) {
  if (!has_image_windows(config) || file.metadata().count(kImageWindows) > 0) return "";
  return path +
         ": when it was trained, two windows of the first row read the first token as a pixel "
         "above "
         "the image; this version reads nothing beyond the border, so losses and samples change a "
         "little; continue its training to adapt it";
}

std::string saved_vocabulary(const SafetensorsFile& file) {
  const auto found = file.metadata().find("vocabulary");
  return found == file.metadata().end() ? "" : found->second;
}

std::vector<NamedTensor> model_tensors(const Model& model) {
  std::vector<NamedTensor> result;
  for (const Parameter& parameter : model.parameters())
    result.push_back({parameter.name, parameter.var.value()});
  for (const Buffer& buffer : model.buffers()) result.push_back({buffer.name, buffer.tensor});
  return result;
}

void load_tensor(const SafetensorsFile& file, const std::string& path, const NamedTensor& target) {
  if (!file.contains(target.name))
    fail(ErrorKind::input,
         "{}: the tensor {} of this model is missing: the file is of another architecture", path,
         target.name);
  const Tensor tensor = file.read(target.name);
  if (tensor.shape() != target.tensor.shape() || tensor.dtype() != target.tensor.dtype())
    fail(ErrorKind::input, "{}: the tensor {} is {} {}, but this model needs {} {}", path,
         target.name, name_of(tensor.dtype()), tensor.shape().str(), name_of(target.tensor.dtype()),
         target.tensor.shape().str());
  std::vector<char> bytes(tensor.bytes());
  tensor.read(bytes.data());
  target.tensor.write(bytes.data());
}

void load_tensors(const SafetensorsFile& file, const std::string& path, Model& model) {
  const std::vector<NamedTensor> tensors = model_tensors(model);
  for (const NamedTensor& tensor : tensors) load_tensor(file, path, tensor);
  if (file.entries().size() != tensors.size())
    fail(ErrorKind::input,
         "{}: {} tensors, but this model has {}: the file is of another architecture", path,
         file.entries().size(), tensors.size());
  model.buffers_changed();
}

std::vector<WeightCount> count_weights(const ModelConfig& config) {
  const auto dim = static_cast<double>(config.dim), ffn = static_cast<double>(config.ffn),
             layers = static_cast<double>(config.layers);
  std::vector<WeightCount> counts = {
      {"token embeddings", static_cast<double>(config.input_vocab_size) * dim}};
  if (config.second_vocab_size > 0) return counts;  // one attention without the layers below
  if (has_position_table(config.positions) && config.positions != "sinusoidal")
    counts.push_back({"position embeddings", static_cast<double>(config.length) * dim});
  size_t read = 3;  // of q, k and v, by the attention that reads least
  for (const AttentionOptions& attention : config.attentions)
    read = std::min(read, projections(traits_of(attention)).size());
  counts.push_back({fmt::format("{} layers of ffn {}", config.layers, config.ffn),
                    layers * (static_cast<double>(read + 1) * dim * dim + 2 * dim * ffn), true});
  return counts;
}

void check_model_size(const SafetensorsFile& file, const ModelConfig& config) {
  double stored = 0;  // elements of the file
  for (const SafetensorsEntry& entry : file.entries()) {
    double elements = 1;
    for (const auto size : entry.shape) elements *= static_cast<double>(size);
    stored += elements;
  }
  for (const WeightCount& count : count_weights(config))
    if (count.elements > stored)
      fail(ErrorKind::input,
           "its {} have {} weights at dim {}, but the file has {}: it is of another architecture",
           count.what, count.elements, config.dim, stored);
}

void check_vocabulary(const SafetensorsFile& file, const std::string& path,
                      const std::string& vocabulary, const std::string& hint) {
  const std::string saved = saved_vocabulary(file);
  if (saved == vocabulary) return;
  if (is_class_list(saved) || is_class_list(vocabulary))
    fail(ErrorKind::input,
         "{} was trained with {}, this run has {}; keep the classes, and `class_token`", path,
         describe_classes(saved), describe_classes(vocabulary));
  if (saved.empty())
    fail(ErrorKind::input, "{} was not trained on text, but this run is; {}", path, hint);
  if (vocabulary.empty())
    fail(ErrorKind::input, "{} was trained on text, but this run is not; {}", path, hint);
  const Vocabulary trained = Vocabulary::parse(saved), current = Vocabulary::parse(vocabulary);
  fail(ErrorKind::input, "{} was trained on a text of {} tokens, this text has {}: {}; {}", path,
       trained.size(), current.size(), current.difference_from(trained), hint);
}

}  // namespace linea
