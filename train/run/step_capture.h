// How the parts of a training step (its micro-batches and its update) are executed: eagerly, or
// captured as device graphs (CUDA graphs) that later steps replay with few launches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/model.h"
#include "tensor/backend.h"
#include "train/run/batches.h"

namespace linea {

// Executes the parts eagerly.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  // The batch of part i at the addresses from which the part reads it.
  virtual BatchTensors stage(int64_t, const BatchTensors& batch) { return batch; }
  virtual void micro_batch(int64_t, const std::function<void()>& work) { work(); }
  // Between the micro-batches and the update, never captured: what ranks add. False: they do not.
  virtual bool exchanges() const { return true; }
  virtual void update(const std::function<void()>& work) { work(); }
};

// Computes gradients without the update.
class GradientExecutor final : public StepExecutor {
 public:
  bool exchanges() const override { return false; }
  void update(const std::function<void()>&) override {}
};

class StepCapture final : public StepExecutor {
 public:
  // Null where the model or the device does not support capture.
  static std::unique_ptr<StepCapture> create(const Model& model, int64_t micro_batches);

  // Calls `step` with this executor. False: a part cannot be captured (refusal()), and the device
  // did none of its work.
  bool run(const std::function<void(StepExecutor&)>& step);
  std::string refusal() const { return recorder_->refusal(); }
  // Kernels and copies of a captured step; 0 before the capture.
  size_t launches() const;

  BatchTensors stage(int64_t i, const BatchTensors& batch) override;
  void micro_batch(int64_t i, const std::function<void()>& work) override;
  void update(const std::function<void()>& work) override { micro_batch(micro_batches_, work); }

 private:
  StepCapture(std::unique_ptr<GraphRecorder> recorder, int64_t micro_batches)
      : recorder_(std::move(recorder)),
        micro_batches_(micro_batches),
        batches_(static_cast<size_t>(micro_batches)) {}

  std::unique_ptr<GraphRecorder> recorder_;
  int64_t micro_batches_;
  std::vector<BatchTensors> batches_;  // where captured work reads each batch
};

}  // namespace linea
