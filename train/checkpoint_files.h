// The folders of a run's checkpoints: which there are, whether they are whole, how one is written
// and which of them stay. What is in the files is told in train/checkpoint.h.
//
//   RUN/checkpoints/step-00001000/manifest.json    name, size and SHA-256 of each other file,
//   written last RUN/checkpoints/.tmp-...                       one that is being written, or
//   removed RUN/checkpoints/bad-step-00001000              one that was passed over, for whoever
//   wants to look at it
//
// A checkpoint counts only if its manifest verifies. It is written under another name, every file
// and folder flushed to the disk, and renamed; older ones go only after that. So whatever ends the
// program, or the power, the checkpoint before or the new one is there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "data/files.h"

namespace linea {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kManifestFile = "manifest.json";

struct CheckpointFolder {
  int64_t step = 0;
  std::filesystem::path path;
};

// Oldest first, whole or not.
std::vector<CheckpointFolder> checkpoints_of(const std::filesystem::path& run);

// Why a checkpoint's folder cannot be used: "" where its manifest verifies, else one line that
// names the file. A folder that was given another name has the step -1: any.
std::string checkpoint_problem(const CheckpointFolder& checkpoint);

// The newest checkpoint that is whole; each newer one that is not is named on stderr. Error:
// ErrorKind::input where there is none.
CheckpointFolder newest_checkpoint(const std::filesystem::path& run);

// A checkpoint on its way to RUN/checkpoints/step-...; without commit() nothing of it stays.
class CheckpointDraft {
 public:
  CheckpointDraft(const std::filesystem::path& run, int64_t step);
  ~CheckpointDraft();
  CheckpointDraft(const CheckpointDraft&) = delete;
  CheckpointDraft& operator=(const CheckpointDraft&) = delete;

  // Where a file of the checkpoint is to be written, and what was.
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  void add(const std::string& name, const WrittenFile& written);
  // Writes the manifest and gives the folder its name. `settings`: the run's config, whose hash is
  // recorded.
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

// Which checkpoints stay: the newest `last` (0: all), every one whose step is a multiple of `every`
// (0: none is), and the step `best`.
struct KeepRule {
  int64_t last = 3, every = 0, best = -1;
};
// Of those up to `step`, which was just written.
void prune_checkpoints(const std::filesystem::path& run, int64_t step, const KeepRule& rule);

// Gives the checkpoints after `step`, which were passed over as bad, names that no program takes
// for one.
void set_bad_checkpoints_aside(const std::filesystem::path& run, int64_t step);

// Removes what a killed process left half written or half removed in a run's folders.
void remove_drafts(const std::filesystem::path& run);

}  // namespace linea
