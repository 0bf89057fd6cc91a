// The memory of a training step, by arithmetic and from smaller steps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "tensor/memory_report.h"
#include "train/config.h"

namespace linea {

struct MeasuredStep {
  size_t peak;  // bytes of tensors, beyond those before the step, and of the batch in host memory
  double seconds;
};
// Makes step `step` of `batches` micro-batches of `rows` rows.
MeasuredStep measure_step(Model& model, Optimizer& optimizer, const Task& task, RunConfig config,
                          int64_t step, int64_t rows, int64_t batches);

// Error: ErrorKind::memory where the parts of a run exceed the limit.
void refuse_too_large(const RunConfig& config, const MemoryParts& parts, const MemoryLimit& limit);
// Checks weights, their gradients and moments alone; allocates nothing.
void refuse_too_many_weights(const RunConfig& config, const ModelConfig& model);

// Error: ErrorKind::memory where the run certainly does not fit. Where that is in question, it
// makes steps of few rows with a model of at most two of the layers and extrapolates; where these
// are expected to take longer than `max_seconds`, it refuses nothing. Changes nothing of the run that
// follows.
void refuse_what_cannot_fit(const RunConfig& config, const Task& task, double max_seconds = 3);

}  // namespace linea
