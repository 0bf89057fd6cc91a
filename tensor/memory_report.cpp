#include "tensor/memory_report.h"

#include <algorithm>

#include "base/system.h"

namespace linea {
namespace {

thread_local MemoryPart current_part = MemoryPart::activations;
const MemoryBreakdown* breakdown = nullptr;
size_t sharing_processes = 1;

std::string size_text(size_t bytes) {
  const double mib = static_cast<double>(bytes) / 1048576.0;
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

}  // namespace

const char* name_of(MemoryPart part) {
  const char* const names[] = {"activations and workspace", "parameters", "gradients", "optimizer"};
  return names[static_cast<size_t>(part)];
}

size_t& MemoryParts::of(MemoryPart part) {
  size_t* const all[] = {&activations, &parameters, &gradients, &optimizer};
  return *all[static_cast<size_t>(part)];
}

MemoryScope::MemoryScope(MemoryPart part) : Scoped(current_part, part) {}
MemoryPart current_memory_part() { return current_part; }

MemoryBreakdown::MemoryBreakdown(std::function<MemoryParts()> count)
    : count_(std::move(count)), current_(breakdown, this) {}
bool MemoryBreakdown::present() { return breakdown != nullptr; }

MemoryParts MemoryBreakdown::take(size_t held) {
  MemoryParts parts = breakdown == nullptr ? MemoryParts() : breakdown->count_();
  parts.of(current_part) += held - std::min(held, parts.sum());
  return parts;
}

bool MemoryReport::weights_dominate() const {
  MemoryParts wanted = held;
  wanted.of(part) += asked;
  return wanted.weights() > wanted.activations;
}

std::string MemoryReport::text() const {
  return fmt::format(
      "out of memory: {} asked for {}; held: parameters {}, gradients {}, optimizer {}, "
      "activations and workspace {}; {}",
      size_text(asked), name_of(part), size_text(held.parameters), size_text(held.gradients),
      size_text(held.optimizer), size_text(held.activations), limit.text());
}

std::string MemoryLimit::text() const {
  const std::string all = fmt::format("{} {}", whose, size_text(total));
  return bytes == total ? all : fmt::format("{}, {} of it for tensors", all, size_text(bytes));
}

OutOfMemory::OutOfMemory(const MemoryReport& report)
    : Error(ErrorKind::memory, report.text() + (report.weights_dominate()
                                                    ? "; lower `dim`, `ffn` or `layers`"
                                                    : "; lower `batch`, `length`, `dim` or `ffn`")),
      report_(report) {}

void share_machine_memory(int processes) {
  sharing_processes = static_cast<size_t>(std::max(1, processes));
}

// An eighth of the memory, at most 128 MiB, is reserved for what the program takes besides tensors:
// a machine or container without memory kills a process without a message. Where the address space
// is limited, the mapped size is known, and a 32nd is reserved.
MemoryLimit machine_memory(size_t taken, const std::string& root) {
  constexpr size_t kMaxReserve = size_t{128} << 20;
  const SystemMemory machine = installed_memory(root), container = container_memory(root),
                     process = process_memory();
  MemoryLimit least{SIZE_MAX, SIZE_MAX, ""};
  const auto consider = [&](const SystemMemory& memory, size_t reserve, const char* whose,
                            size_t processes = 1) {
    if (memory.total == SIZE_MAX) return;
    size_t bytes = memory.total / processes;
    if (memory.available != SIZE_MAX) bytes = std::min(bytes, memory.available / processes + taken);
    bytes -= std::min(bytes, reserve);
    if (bytes < least.bytes) least = {bytes, memory.total, whose};
  };
  const auto reserve = [&](size_t total) { return std::min(total / 8, kMaxReserve); };
  consider(machine, reserve(machine.total), "the machine has", sharing_processes);
  consider(container, reserve(container.total), "the container may have", sharing_processes);
  consider(process, process.total / 32, "this process may have (ulimit -v)");
  return least;
}

}  // namespace linea
