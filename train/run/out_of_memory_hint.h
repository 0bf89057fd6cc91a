// Memory of a training run by category, and what to change where there is too little.
#pragma once

#include <string>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "nn/weight_average.h"
#include "tensor/memory_report.h"
#include "train/config.h"

namespace linea {

// Bytes of the tensors of a model, an optimizer and an average of the weights, which counts with
// the optimizer's; null: there is none yet.
MemoryParts training_memory(const Model* model, const Optimizer* optimizer,
                            const WeightAverage* average = nullptr);

// "lower --batch (16) or ...": the settings on which the largest category depends, with their
// values.
std::string out_of_memory_hint(const RunConfig& config, bool weights_dominate);

// Calls `work`; an out-of-memory error in it names the settings to change.
template <typename Work>
auto with_out_of_memory_hint(const RunConfig& config, const Work& work) {
  try {
    return work();
  } catch (const OutOfMemory& error) {
    const MemoryReport& report = error.report();
    fail(ErrorKind::memory, "{}; {}", report.text(),
         out_of_memory_hint(config, report.weights_dominate()));
  }
}

// Calls `work`, which evaluates a model or samples from it (null: the model is being read); an
// out-of-memory error in it lists the model's memory and ends with `hint`. Within a training run,
// whose own errors are more specific, only calls it.
template <typename Work>
auto with_model_memory(const Model* model, const std::string& hint, const Work& work) {
  if (MemoryBreakdown::present()) return work();
  const MemoryBreakdown breakdown([model] { return training_memory(model, nullptr); });
  try {
    return work();
  } catch (const OutOfMemory& error) {
    fail(ErrorKind::memory, "{}; {}", error.report().text(), hint);
  }
}

// For work whose size depends on no flag of the command.
std::string machine_hint();

}  // namespace linea
