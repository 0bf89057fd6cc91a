// The report of an out-of-memory error: the request, the memory in use by purpose, and the limit.
// The breakdown is computed only when memory has run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/scoped.h"
#include "tensor/memory.h"

namespace linea {

// The purpose of a block of memory.
enum class MemoryPart : uint8_t { activations, parameters, gradients, optimizer };
const char* name_of(MemoryPart part);

// Bytes by purpose. `activations`: everything else, including the workspace of ops.
struct MemoryParts {
  size_t activations = 0, parameters = 0, gradients = 0, optimizer = 0;
  // Independent of the batch size.
  size_t weights() const { return parameters + gradients + optimizer; }
  size_t sum() const { return activations + weights(); }
  size_t& of(MemoryPart part);
};

// Sets the purpose of this thread's allocations during its lifetime; initially activations.
struct MemoryScope : Scoped<MemoryPart> {
  explicit MemoryScope(MemoryPart part);
};

MemoryPart current_memory_part();

// During its lifetime, out-of-memory errors of all threads report what `count` returns. Other
// memory in use counts for the purpose in whose scope the error occurred. `count` must not allocate
// tensors.
class MemoryBreakdown {
 public:
  explicit MemoryBreakdown(std::function<MemoryParts()> count);
  // The parts of `held` bytes, by the breakdown if there is one.
  static MemoryParts take(size_t held);
  static bool present();

 private:
  std::function<MemoryParts()> count_;
  Scoped<const MemoryBreakdown*> current_;
};

struct MemoryReport {
  size_t asked = 0;
  MemoryPart part = MemoryPart::activations;  // purpose of the request
  MemoryParts held;
  MemoryLimit limit;
  bool weights_dominate() const;  // the request included
  // "out of memory: 12.0 MiB asked for ...; held: parameters 1.0 MiB, ...; the machine has 23.0
  // GiB"
  std::string text() const;
};

// The message ends with a general hint; a program can derive a better one from the report.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const MemoryReport& report);
  const MemoryReport& report() const { return report_; }

 private:
  MemoryReport report_;
};

// The limit by what is available on this machine, in a control group (container) or under the
// process's limit, whichever is the least. `taken`: bytes that this program's tensors have, which
// the system counts as used. `root`: as in base/system.h.
MemoryLimit machine_memory(size_t taken = 0, const std::string& root = "");
// From here on machine_memory() gives this process one of `processes` equal parts of what the
// machine and its control group have.
void share_machine_memory(int processes);

}  // namespace linea
