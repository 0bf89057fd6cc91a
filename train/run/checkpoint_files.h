// The folders of a run's checkpoints: listing, verifying, writing and pruning them.
// train/run/checkpoint.h defines the contents of their files.
//
//   RUN/checkpoints/
//     step-00001000/manifest.json  name, size and SHA-256 of each other file; written last
//     .tmp-...                     a checkpoint being written or removed
//     bad-step-00001000            a checkpoint that failed verification, for inspection
//
// A checkpoint counts only if its manifest verifies. It is written under a temporary name, every
// file and folder is flushed to the disk, and then it is renamed; older ones are removed only after
// that. So whatever ends the program or cuts the power, the previous or the new checkpoint exists.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "data/files.h"

namespace linea {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kAverageFile = "ema.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kManifestFile = "manifest.json";

struct CheckpointFolder {
  int64_t step = 0;
  std::filesystem::path path;
};

// Oldest first, sound or not.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& run);

// Why a checkpoint cannot be used, in one line that names the file; "" where its manifest verifies.
// The step -1 stands for any: of a folder that the user renamed.
std::string checkpoint_problem(const CheckpointFolder& checkpoint);

// The newest sound checkpoint; newer ones that are not are reported on stderr. Error:
// ErrorKind::input where there is none.
CheckpointFolder newest_checkpoint(const std::filesystem::path& run);

// A checkpoint being written; without commit() it leaves nothing behind.
class CheckpointDraft {
 public:
  CheckpointDraft(const std::filesystem::path& run, int64_t step);
  ~CheckpointDraft();
  CheckpointDraft(const CheckpointDraft&) = delete;
  CheckpointDraft& operator=(const CheckpointDraft&) = delete;

  // Where to write a file of the checkpoint; add() registers it once written.
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  void add(const std::string& name, const WrittenFile& written);
  // Writes the manifest and renames the folder to RUN/checkpoints/step-.... `settings`: the run's
  // config, whose hash the manifest records.
  void commit(const std::string& settings);

 private:
  struct File {
    std::string name;
    WrittenFile written;
  };
  std::filesystem::path folder_, target_;
  int64_t step_;
  bool committed_ = false;
  std::vector<File> files_;
};

// The checkpoints that pruning leaves: the newest `last` (0: all), those whose step is a multiple
// of `every` (0: none; step 0, of a run stopped early, is none), and the steps that are best by the
// last and by the averaged weights.
struct RetentionRule {
  int64_t last = 3, every = 0, best = -1, best_average = -1;
};
// Prunes the checkpoints up to `step`, the newest.
void prune_checkpoints(const std::filesystem::path& run, int64_t step, const RetentionRule& rule);

// Renames the checkpoints after `step`, which failed verification, to bad-....
void set_bad_checkpoints_aside(const std::filesystem::path& run, int64_t step);

// Removes temporary files and folders that a killed process left in a run's folders.
void remove_drafts(const std::filesystem::path& run);

}  // namespace linea
