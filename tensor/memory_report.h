// What an error of memory says: who asked for how much, what is held for which part of a training,
// and how much there is. Nothing is counted before it is needed: a breakdown is taken when memory
// has run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tensor/error.h"
#include "tensor/memory.h"

namespace linea {

// What a block of memory is for.
enum class MemoryPart : uint8_t { activations, parameters, gradients, optimizer };
const char* name_of(MemoryPart part);

// Bytes of tensors. `activations`: all that is in no other part, with the workspace of ops.
struct MemoryParts {
  size_t activations = 0, parameters = 0, gradients = 0, optimizer = 0;
  size_t weights() const {
    return parameters + gradients + optimizer;
  }  // what does not grow with a batch
  size_t sum() const { return activations + weights(); }
  size_t& of(MemoryPart part);
};

// While one lives, what this thread allocates is for this part. Without one: activations.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryPart part);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryPart before_;
};

MemoryPart memory_part_at_work();

// While one lives, errors of this thread say what `count` counts. What is held besides is of the
// part in whose scope the error happened. `count` must not allocate tensors.
class MemoryBreakdown {
 public:
  explicit MemoryBreakdown(std::function<MemoryParts()> count);
  ~MemoryBreakdown();
  MemoryBreakdown(const MemoryBreakdown&) = delete;
  MemoryBreakdown& operator=(const MemoryBreakdown&) = delete;
  // By this thread's breakdown, where it has one, of `held` bytes.
  static MemoryParts take(size_t held);
  static bool present();  // this thread has one

 private:
  std::function<MemoryParts()> count_;
  const MemoryBreakdown* before_;
};

struct MemoryReport {
  size_t asked = 0;
  MemoryPart part = MemoryPart::activations;  // that asked
  MemoryParts held;
  MemoryLimit limit;
  bool weights_dominate() const;  // with what was asked for
  // "out of memory: 12.0 MiB asked for ...; held: parameters 1.0 MiB, ...; the machine has 23.0
  // GiB"
  std::string text() const;
};

// Its message ends with hint that fits any program; one that knows its flags can give better from
// the report.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const MemoryReport& report);
  const MemoryReport& report() const { return report_; }

 private:
  MemoryReport report_;
};

// The memory of this machine, or less where a control group (a container) or a limit of the process
// allows less.
MemoryLimit machine_memory();
// What the CPU's allocator keeps to.
MemoryLimit cpu_memory_limit();
// The least limit from the group of this process up to the root, SIZE_MAX where there is none.
// `groups`: /proc/self/cgroup; `mount`: /sys/fs/cgroup (memory.max of version 2,
// memory/.../memory.limit_in_bytes of 1).
size_t container_memory(const std::string& groups, const std::string& mount);

// For tests: the allocation number `count` from now on the CPU fails as if memory had run out; 0:
// none does.
void fail_cpu_allocation_at(int64_t count);

}  // namespace linea
