// Benches of `linea bench`: each takes plain options and prints its results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/config.h"

namespace linea::bench {

// The model that is measured: a preset, changed by settings.
struct ModelChoice {
  std::string preset = "nanogpt";
  SettingLayer given{};             // overrides those of the preset
  std::optional<int64_t> length{};  // positions; the preset's where it is not given
  bool trains = false;              // has the settings of training too
  RunConfig config{};               // resolved by chosen_model
};

struct AttentionBench {
  std::vector<AttentionOptions> attentions;
  std::vector<int64_t> lengths = {512, 1024, 2048, 4096, 8192, 16384};
  int64_t segment = 0, chunk = 0;
  int64_t batch = 1, heads = 4, key_size = 64, threads = 0;
  std::string device = "cpu", dtype = "fp32";
  double seconds = 0.5;  // at least, a measurement
  std::string svg;       // a chart of the times; empty: none
  bool json = false;
};

struct TrainBench {
  ModelChoice model;
  int64_t steps = 20, warmup = 3;
  bool json = false;
};

struct ScalingBench {
  ModelChoice model;
  int64_t repeats = 5;
  std::string network;  // "MICROSECONDS,GB_PER_S" to compute times for; empty: two usual ones
  bool json = false;
};

struct SampleBench {
  ModelChoice model;
  std::vector<int64_t> batches = {1, 16, 256, 1024};
  int64_t tokens = 0;
  bool json = false;
};

struct MemoryBench {
  std::vector<int64_t> lengths = {1024, 2048, 4096, 8192, 16384, 32768, 65536};
  int64_t heads = 4, key_size = 64, features = 64, threads = 0;
  double limit = 8, seconds = 0.2;  // GiB of states; at least, a measurement
  std::string svg;
  bool json = false;
};

void run(const AttentionBench& options);
void run(TrainBench options);
void run(ScalingBench options);
void run(SampleBench options);
void run(MemoryBench options);

// Names of models that can be trained, or sampled: those that read pairs only train.
std::vector<std::string> model_preset_names(bool trains);
// Whether a general setting changes a measured model.
bool changes_model(const GeneralSetting& general, bool trains);

}  // namespace linea::bench
