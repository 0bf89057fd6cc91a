// Checkpoints: saving a run, resuming it, and loading its model. train/run/checkpoint_files.h writes,
// verifies and prunes their folders.
//
//   RUN/checkpoints/step-00001000/
//     model.safetensors      weights; metadata: format, config, vocabulary, step, windows
//     ema.safetensors        with --ema: the same of the averaged weights
//     optimizer.safetensors  moments
//     state.json             train/run/run_state.h
//
// model.safetensors or ema.safetensors alone is enough to sample and to evaluate.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "nn/weight_average.h"
#include "train/config.h"
#include "train/run/checkpoint_files.h"
#include "train/run/run_state.h"
#include "train/weights.h"

namespace linea {

struct SavedModel {
  RunConfig config;
  std::string vocabulary;  // of a text; else empty
  TaskShape shape;
  int64_t step = 0;
  std::string note;  // for the user: what this version computes otherwise; else empty
  std::unique_ptr<Model> model;
};

// Also removes older checkpoints by `retention`. `average`: null without --ema. Error:
// ErrorKind::write.
void save_checkpoint(const std::filesystem::path& run, const RunState& state,
                     const RunConfig& config, const std::string& vocabulary, const Model& model,
                     const Optimizer& optimizer, const RetentionRule& retention,
                     const Model* average = nullptr);

// `path`: a run (its newest sound checkpoint), a checkpoint's folder, or a model file. `dtype`: the
// type to compute in; empty: the one of the training. Errors: ErrorKind::input, naming what is
// missing, truncated, not Linea's or of another architecture; ErrorKind::memory; ErrorKind::usage
// where there are no averaged weights.
SavedModel load_model(const std::filesystem::path& path, const std::string& dtype = {},
                      Weights weights = Weights::last);

// The settings, as TOML, of a run's newest model.
std::string saved_settings(const std::filesystem::path& run);
// Error: ErrorKind::input where the newest readable checkpoint of a run has another format. Damage
// is not reported.
void refuse_other_format(const std::filesystem::path& run);

// Weights of another run, the base, for a model of a task of this shape. What both have is copied,
// also the buffers of one attention (codebooks, random projections) that have the same sizes; what
// the other attention or update rule defines stays as it is. Queries are scaled where softmax
// scaled them and this attention does not. The model starts as the base, or near it, where it has
//   more layers: the new ones add 0 at first;
//   more or fewer positions: the table repeats or is cut, that of images of another size takes the
//     nearest pixels; another kind of positions: they start as the sum of the base's tables;
//   classes or not, or a token of no class: one is the other, or the mean of all;
//   biases, or classes at every position: 0; an output matrix that was tied: the token embedding.
// `note` gets one line that names all that was not taken from the base or was taken otherwise, and
// one where the base computed otherwise than this version.
// Errors: ErrorKind::usage where the tokens of the tasks differ; ErrorKind::input naming a tensor
// that is missing or of another shape, or the difference between the vocabularies (`vocabulary`;
// empty: none).
void load_initial_weights(const std::filesystem::path& run, Model& model, const TaskShape& shape,
                          const std::string& vocabulary, const Note& note);

struct RestoredRun {
  RunState state;
  RunConfig config;  // with which the run was trained until then
};
// Loads the newest checkpoint of a run into a model and an optimizer built from `config`. `note`
// gets one line for each reason why the run will not continue bit for bit: other settings, another
// program, BLAS, device or number of threads. Errors: ErrorKind::input, as above, or where the
// vocabulary or the fingerprint of the data differs from the run's; ErrorKind::usage for a setting
// that may not change. `average`, where not null, starts from the weights of a checkpoint that has
// none.
RestoredRun restore_checkpoint(const std::filesystem::path& run, Model& model, Optimizer& optimizer,
                               const RunConfig& config, const std::string& vocabulary,
                               const std::string& fingerprint, const Note& note,
                               WeightAverage* average = nullptr);

}  // namespace linea
