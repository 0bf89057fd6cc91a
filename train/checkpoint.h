// What is in a checkpoint, and models read back from one. How its folder is written, checked and
// kept is told in train/checkpoint_files.h.
//
//   RUN/checkpoints/step-00001000/model.safetensors      weights; metadata: config, vocabulary,
//   step
//                                 optimizer.safetensors  moments
//                                 state.json             what else resuming needs
//
// model.safetensors alone is enough to sample and to evaluate.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "train/checkpoint_files.h"
#include "train/config.h"
#include "train/update_guard.h"

namespace linea {

struct SavedModel {
  RunConfig config;
  std::string vocabulary;  // of text; else empty
  TaskShape shape;
  int64_t step = 0;
  std::unique_ptr<Model> model;
};

// What going on needs besides weights and moments.
struct RunState {
  int64_t step = 0;
  int64_t losses = 0;   // of the steps since the last record
  double loss_sum = 0;  // of those
  GuardState guard;
  std::string data;  // Task::fingerprint()
};

// Errors: ErrorKind::write. Older checkpoints go by `keep`.
void save_checkpoint(const std::filesystem::path& run, const RunState& at, const RunConfig& config,
                     const std::string& vocabulary, const Model& model, const Optimizer& optimizer,
                     const KeepRule& keep);

// `path`: a run (its newest checkpoint that is whole), a checkpoint's folder, or a model file.
// Errors: ErrorKind::input, naming what is missing, cut, not ours or of another architecture;
// ErrorKind::memory. `dtype`: what it computes in; empty: in what it was trained in.
SavedModel load_model(const std::filesystem::path& path, const std::string& dtype = {});

// The settings, as TOML, that a run's newest model was saved with.
std::string saved_settings(const std::filesystem::path& run);
// Weights of another run for a model whose attention may differ: what both have is taken over, what
// only the attention of one has stays. The same attention takes over its buffers too (codebooks,
// random projections), where they have its sizes. Queries are scaled where softmax scaled them and
// this attention does not. Errors: ErrorKind::input naming a tensor that is missing or of another
// shape, or what differs in the tokens of a text (`vocabulary`; empty: none).
void load_initial_weights(const std::filesystem::path& run, Model& model,
                          const std::string& vocabulary);

// Puts the newest checkpoint of a run into a model and an optimizer made for it by `config`. `note`
// hears of what will keep the run from going on bit for bit: other settings, another program, BLAS,
// device or number of threads. Errors: ErrorKind::input, as above; where the data's vocabulary or
// `fingerprint` is not the run's.
RunState restore_checkpoint(const std::filesystem::path& run, Model& model, Optimizer& optimizer,
                            const RunConfig& config, const std::string& vocabulary,
                            const std::string& fingerprint,
                            const std::function<void(const std::string&)>& note);

}  // namespace linea
