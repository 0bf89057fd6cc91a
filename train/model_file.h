// model.safetensors, the model of a checkpoint: its weights and buffers, and in its metadata the
// format, the settings, the vocabulary and the step. Internal to the checkpoint code.
#pragma once

#include <filesystem>
#include <string>

#include "data/safetensors.h"
#include "nn/model.h"
#include "train/config.h"
#include "train/weights.h"

namespace linea {

// Raised with every change of tensor names or metadata; other formats are refused.
inline constexpr const char* kCheckpointFormat = "linea-2";
// Metadata of models with 2-D convolutions whose windows read nothing beyond the image. In files
// without it the first row's last two windows read the start or class token as a pixel above.
inline constexpr const char* kImageWindows = "image_windows";
inline constexpr const char* kInsideTheImage = "inside";

// `path`: a run (its newest sound checkpoint), a checkpoint's folder, or a model file. Error:
// ErrorKind::usage where these have no averaged weights.
std::filesystem::path find_model_file(const std::filesystem::path& path,
                                      Weights weights = Weights::last);
// Error: ErrorKind::input for a file of another program or of another format.
SafetensorsFile open_model_file(const std::string& path);
// Error: ErrorKind::input where `key` is missing.
std::string metadata_value(const SafetensorsFile& file, const std::string& path,
                           const std::string& key);
bool has_image_windows(const RunConfig& config);
// A line for a model that was trained with other windows, whose losses and samples change; else "".
std::string image_windows_note(const SafetensorsFile& file, const std::string& path,
                               const RunConfig& config);
// "" where there is none.
std::string saved_vocabulary(const SafetensorsFile& file);

// Parameters and buffers, by name.
std::vector<NamedTensor> model_tensors(const Model& model);
// Copies the tensor `target.name` of the file into target.tensor. Error: ErrorKind::input where it
// is missing or has another type or shape.
void load_tensor(const SafetensorsFile& file, const std::string& path, const NamedTensor& target);
// All tensors of the model, which must be all of the file.
void load_tensors(const SafetensorsFile& file, const std::string& path, Model& model);

// At least the weights of a model; nothing is allocated.
struct WeightCount {
  std::string what;
  double elements;
  bool matrices = false;  // of blocks
};
std::vector<WeightCount> count_weights(const ModelConfig& config);
// Error: ErrorKind::input where the file has fewer elements than a model of these settings needs: a
// damaged config must not cause an allocation that the file's size rules out.
void check_model_size(const SafetensorsFile& file, const ModelConfig& config);
// Error: ErrorKind::input where the model was trained with another vocabulary: token ids would have
// another meaning, even with a vocabulary of the same size.
void check_vocabulary(const SafetensorsFile& file, const std::string& path,
                      const std::string& vocabulary, const std::string& hint);

}  // namespace linea
