// Memory of a training by its parts, and what to change where it is not enough.
#pragma once

#include <string>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "tensor/memory_report.h"
#include "train/config.h"

namespace linea {

// Bytes of the tensors that a model and an optimizer hold; null: not made yet.
MemoryParts training_memory(const Model* model, const Optimizer* optimizer);

// "lower --batch (16) or ...": the settings that what dominates grows with, and their values.
std::string out_of_memory_hint(const RunConfig& config, bool weights_dominate);

// Calls `work`; where memory runs out in it, the error says which of these settings to change.
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

// Calls `work`, which evaluates or draws by a model alone (null: that is read just now); where
// memory runs out in it, the error says what the model holds, and ends with `hint`. Within a
// training, whose own errors say more: just calls it.
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

// For work whose size no flag of the command lowers.
std::string machine_hint();

}  // namespace linea
