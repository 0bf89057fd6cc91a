// Memory of a training by its parts, and what to change where it is not enough.
#pragma once

#include <string>

#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "tensor/memory_report.h"
#include "train/config.h"

namespace linea {

// Bytes of the tensors that a model and an optimizer hold; null: not made yet.
MemoryParts training_memory(const Transformer* model, const Optimizer* optimizer);

// "lower --batch (16) or ...": the settings that what dominates grows with, and their values.
std::string memory_advice(const RunConfig& config, bool weights_dominate);

// Calls `work`; where memory runs out in it, the error says which of these settings to change.
template <typename Work>
auto with_memory_advice(const RunConfig& config, const Work& work) {
  try {
    return work();
  } catch (const OutOfMemory& error) {
    const MemoryReport& report = error.report();
    fail(ErrorKind::memory, "{}; {}", report.text(),
         memory_advice(config, report.weights_dominate()));
  }
}

// Calls `work`, which evaluates or draws by a model alone (null: that is read just now); where
// memory runs out in it, the error says what the model holds, and ends with `advice`. Within a
// training, whose own errors say more: just calls it.
template <typename Work>
auto with_model_memory(const Transformer* model, const std::string& advice, const Work& work) {
  if (MemoryCensus::present()) return work();
  const MemoryCensus census([model] { return training_memory(model, nullptr); });
  try {
    return work();
  } catch (const OutOfMemory& error) {
    fail(ErrorKind::memory, "{}; {}", error.report().text(), advice);
  }
}

// For work whose size no flag of the verb lowers.
std::string machine_advice();

}  // namespace linea
