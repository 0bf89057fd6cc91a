// state.json of a checkpoint: the state that resuming needs besides weights and moments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "train/config.h"
#include "train/run/update_guard.h"

namespace linea {

struct RunState {
  int64_t step = 0;
  int64_t loss_count = 0;  // losses since the last record
  double loss_sum = 0;     // of those
  GuardState guard;
  std::string data;      // Task::fingerprint()
  int64_t averaged = 0;  // WeightAverage::updates()
};

// `updates`: of the optimizer.
std::string run_state_json(const RunState& state, int64_t updates);

// Properties on which the bits of a step depend besides settings and data (program, BLAS, device,
// threads, ...), by name.
using Environment = std::vector<std::pair<std::string, std::string>>;
Environment current_environment();

struct SavedState {
  RunState state;
  int64_t updates = 0;
  Environment environment;  // of the program that saved; "unknown" for a missing value
};
// Error: ErrorKind::input where the file is damaged.
SavedState read_run_state(const std::filesystem::path& path);

// Notes for a resumed run that will not continue bit for bit: another environment, and settings
// that change what is learned.
using Note = std::function<void(const std::string&)>;
void note_environment_changes(const Environment& before, const Note& note);
void note_setting_changes(const RunConfig& before, const RunConfig& now, const Note& note);
// Where the learning rate of the step after `step` differs from that of the schedule before.
void note_rate_change(int64_t step, const RunConfig& before, const RunConfig& now,
                      const Note& note);

}  // namespace linea
