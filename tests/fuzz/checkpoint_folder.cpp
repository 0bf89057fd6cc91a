#include "tests/fuzz/checkpoint_folder.h"

#include "data/hash.h"
#include "train/run/checkpoint.h"

namespace linea::fuzz {

CheckpointFolder::CheckpointFolder() {
  config_.task = "copy";
  config_.task_settings = {{"length", 8}};
  config_.layers = 1;
  config_.heads = 1;
  config_.dim = 4;
  config_.ffn = 4;
  const TaskShape shape = task_shape(task_options(config_, ""));
  model_ = make_model(model_config(config_, shape));
  optimizer_ = std::make_unique<Optimizer>(optimizer_config(config_), model_->parameters());
  save_checkpoint(run_.path(), {1, 3, 1.5, {}, "data"}, config_, "", *model_, *optimizer_, {});
  checkpoint_ = list_checkpoints(run_.path()).front().path;
}

void CheckpointFolder::restore_with(const std::string& name, const std::string& bytes) {
  put_file(checkpoint_ / name, bytes);
  put_file(checkpoint_ / "manifest.json",
           fmt::format(R"({{"manifest":1,"step":1,"config_sha256":"{}",)"
                       R"("files":[{{"name":"{}","size":{},"sha256":"{}"}}]}})",
                       hash_bytes(to_toml(config_)), name, bytes.size(), hash_bytes(bytes)));
  expect(checkpoint_problem(list_checkpoints(run_.path()).front()).empty(),
         "the manifest does not verify");
  restore_checkpoint(run_.path(), *model_, *optimizer_, config_, "", "data", expect_one_line);
}

}  // namespace linea::fuzz
