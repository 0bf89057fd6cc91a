// A run with one checkpoint of a tiny model, whose files can be given other bytes: the manifest
// always verifies.
#pragma once

#include <memory>
#include <string>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "tests/fuzz/promise.h"
#include "train/config.h"

namespace linea::fuzz {

class CheckpointFolder {
 public:
  CheckpointFolder();

  // Restores the model and the optimizer after `name`, a file of the checkpoint, was given these
  // bytes.
  void restore_with(const std::string& name, const std::string& bytes);

 private:
  ScratchFolder run_;
  RunConfig config_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::filesystem::path checkpoint_;
};

}  // namespace linea::fuzz
