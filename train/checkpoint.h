// Checkpoints: saving a run, resuming it, and loading its model. train/checkpoint_files.h writes,
// verifies and prunes their folders.
//
//   RUN/checkpoints/step-00001000/
//     model.safetensors      weights; metadata: format, config, vocabulary, step, windows
//     optimizer.safetensors  moments
//     state.json             train/run_state.h
//
// model.safetensors alone is enough to sample and to evaluate.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "train/checkpoint_files.h"
#include "train/config.h"
#include "train/run_state.h"

namespace linea {

struct SavedModel {
  RunConfig config;
  std::string vocabulary;  // of a text; else empty
  TaskShape shape;
  int64_t step = 0;
  std::string note;  // for the user: what this version computes otherwise; else empty
  std::unique_ptr<Model> model;
};

// Also removes older checkpoints by `retention`. Error: ErrorKind::write.
void save_checkpoint(const std::filesystem::path& run, const RunState& state,
                     const RunConfig& config, const std::string& vocabulary, const Model& model,
                     const Optimizer& optimizer, const RetentionRule& retention);

// `path`: a run (its newest sound checkpoint), a checkpoint's folder, or a model file. `dtype`: the
// type to compute in; empty: the one of the training. Errors: ErrorKind::input, naming what is
// missing, truncated, not Linea's or of another architecture; ErrorKind::memory.
SavedModel load_model(const std::filesystem::path& path, const std::string& dtype = {});

// The settings, as TOML, of a run's newest model.
std::string saved_settings(const std::filesystem::path& run);
// Error: ErrorKind::input where the newest readable checkpoint of a run has another format. Damage
// is not reported.
void refuse_other_format(const std::filesystem::path& run);

// Weights of another run for a model whose attention may differ: tensors that both have are copied,
// those of one attention alone stay as they are. With the same attention, buffers of the same size
// (codebooks, random projections) are copied too. Queries are scaled where softmax scaled them and
// this attention does not. Errors: ErrorKind::input naming a tensor that is missing or of another
// shape, or the difference between the vocabularies (`vocabulary`; empty: none). `note` gets a line
// where the run computed otherwise than this version.
void load_initial_weights(const std::filesystem::path& run, Model& model,
                          const std::string& vocabulary, const Note& note);

struct RestoredRun {
  RunState state;
  RunConfig config;  // with which the run was trained until then
};
// Loads the newest checkpoint of a run into a model and an optimizer built from `config`. `note`
// gets one line for each reason why the run will not continue bit for bit: other settings, another
// program, BLAS, device or number of threads. Errors: ErrorKind::input, as above, or where the
// vocabulary or the fingerprint of the data differs from the run's; ErrorKind::usage for a setting
// that may not change.
RestoredRun restore_checkpoint(const std::filesystem::path& run, Model& model, Optimizer& optimizer,
                               const RunConfig& config, const std::string& vocabulary,
                               const std::string& fingerprint, const Note& note);

}  // namespace linea
