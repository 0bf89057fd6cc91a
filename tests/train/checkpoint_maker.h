// Checkpoints of a tiny model, made in the test's own process.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "data/tasks/task.h"
#include "tests/data/data_helpers.h"
#include "train/run/checkpoint.h"

namespace linea {

class CheckpointTest : public DataTest {
 protected:
  CheckpointTest() {
    config_.task = "copy";
    config_.task_settings = {{"length", 8}};
    config_.layers = 1;
    config_.heads = 1;
    config_.dim = 4;
    config_.ffn = 4;
    shape_ = task_shape(task_options(config_, ""));
    model_ = make_model(model_config(config_, shape_));
    optimizer_ = std::make_unique<Optimizer>(optimizer_config(config_), model_->parameters());
  }

  // A checkpoint of this step, whose weights and their average begin with its number.
  void save(const std::string& run, int64_t step, const RetentionRule& keep = {1, 0, -1}) const {
    const Tensor& first = model_->parameters().front().var.value();
    std::vector<double> values = first.to_doubles();
    values.front() = static_cast<double>(step);
    write_values(values, first);
    save_checkpoint(path(run), {step, 3, 1.5, {}, "data"}, config_, "", *model_, *optimizer_, keep,
                    model_.get());
  }
  // The step whose checkpoint a program would take, its weights read and compared.
  static int64_t usable_step(const std::filesystem::path& run) {
    const int64_t step = newest_checkpoint(run).step;
    const SavedModel saved = load_model(run);
    EXPECT_EQ(saved.step, step);
    EXPECT_EQ(saved.model->parameters().front().var.value().to_doubles().front(),
              static_cast<double>(step));
    return step;
  }
  // Names in the checkpoints' folder, sorted.
  std::vector<std::string> names(const std::string& run) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path(run + "/checkpoints")))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string file(const std::string& run, int64_t step, const std::string& name) const {
    return path(fmt::format("{}/checkpoints/step-{:08}/{}", run, step, name));
  }

  RunConfig config_;
  TaskShape shape_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace linea
