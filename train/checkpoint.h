// Checkpoints of a run, and models read back from them.
//
//   RUN/checkpoints/step-00001000/model.safetensors      weights; metadata: config, vocabulary, step
//                                 optimizer.safetensors  moments
//                                 state.json             what else resuming needs
//
// A checkpoint is written into a folder of another name, flushed to disk, then renamed: it is there
// whole or not at all. model.safetensors alone is enough to sample and to evaluate.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "train/config.h"

namespace linea {

struct SavedModel {
  RunConfig config;
  std::string vocabulary;  // of text; else empty
  TaskShape shape;
  int64_t step = 0;
  std::unique_ptr<Transformer> model;
};

// What going on needs besides weights and moments.
struct RunState {
  int64_t step = 0;
  int64_t losses = 0;   // of the steps since the last record
  double loss_sum = 0;  // of those
};

// Errors: ErrorKind::write. Older checkpoints beyond the newest `keep` are removed (0: none).
void save_checkpoint(const std::filesystem::path& run, const RunState& at, const RunConfig& config,
                     const std::string& vocabulary, const Transformer& model,
                     const Optimizer& optimizer, int64_t keep);

// `path`: a run, a checkpoint's folder, or a model file. Errors: ErrorKind::input, naming what is missing,
// cut, not ours or of another architecture.
SavedModel load_model(const std::filesystem::path& path);

// The settings, as TOML, that a run's newest model was saved with.
std::string saved_settings(const std::filesystem::path& run);
// Weights of another run for a model whose attention may differ: what both have is taken over, what only the
// attention of one has stays. The same attention takes over its buffers too (codebooks, random projections),
// where they have its sizes. Queries are scaled where softmax scaled them and this attention does not.
// Errors: ErrorKind::input naming a tensor that is missing or of another shape, or what differs in the
// symbols of a text (`vocabulary`; empty: none).
void load_initial_weights(const std::filesystem::path& run, Transformer& model, const std::string& vocabulary);

// Puts the newest checkpoint of a run into a model and an optimiser made for it, and its data's vocabulary.
// Errors: ErrorKind::input, as above.
RunState restore_checkpoint(const std::filesystem::path& run, Transformer& model, Optimizer& optimizer,
                            const std::string& vocabulary);

// The newest checkpoint folder of a run. Error: ErrorKind::input where there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run);

}  // namespace linea
