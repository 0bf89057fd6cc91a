#include "train/run/step_capture.h"

namespace linea {
namespace {

struct Refused {};  // a part cannot be captured

// Copies x into `target`, once that has memory.
void copy_to(const Tensor& x, Tensor& target) {
  if (!target.defined()) {
    target = x;
  } else {
    device_memory(target.device()).copy(context(), target.address(), x.address(), x.bytes());
  }
}

}  // namespace

std::unique_ptr<StepCapture> StepCapture::create(const Model& model, int64_t micro_batches) {
  if (!model.is_capturable()) return nullptr;
  std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  if (recorder == nullptr) return nullptr;
  return std::unique_ptr<StepCapture>(new StepCapture(std::move(recorder), micro_batches));
}

bool StepCapture::run(const std::function<void(StepExecutor&)>& step) {
  try {
    step(*this);
    return true;
  } catch (const Refused&) {
    return false;
  }
}

BatchTensors StepCapture::stage(int64_t i, const BatchTensors& batch) {
  BatchTensors& own = batches_.at(static_cast<size_t>(i));
  copy_to(batch.inputs, own.inputs);
  copy_to(batch.targets, own.targets);
  if (batch.second_inputs.defined()) copy_to(batch.second_inputs, own.second_inputs);
  if (batch.valid.defined()) copy_to(batch.valid, own.valid);
  return own;
}

void StepCapture::micro_batch(int64_t i, const std::function<void()>& work) {
  if (!recorder_->run(static_cast<size_t>(i), work)) throw Refused();
}

size_t StepCapture::launches() const {
  size_t total = 0;
  for (int64_t i = 0; i <= micro_batches_; ++i)
    total += recorder_->launches(static_cast<size_t>(i));
  return total;
}

}  // namespace linea
