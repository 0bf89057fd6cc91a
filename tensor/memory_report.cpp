#include "tensor/memory_report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace linea {
namespace {

thread_local MemoryPart current_part = MemoryPart::activations;
const MemoryBreakdown* breakdown = nullptr;

std::string size_text(size_t bytes) {
  const double mib = static_cast<double>(bytes) / 1048576.0;
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

// A number of bytes; SIZE_MAX for "max", a missing file and other text.
size_t read_limit(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return SIZE_MAX;
  size_t bytes = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), bytes);
  return error == std::errc() && rest == word.data() + word.size() ? bytes : SIZE_MAX;
}

// The limit of a group and of its parents.
size_t lowest_limit(const std::string& mount, std::string group, const std::string& name) {
  size_t min = SIZE_MAX;
  while (true) {
    min = std::min(min, read_limit(fmt::format("{}{}/{}", mount, group == "/" ? "" : group, name)));
    const size_t slash = group.find_last_of('/');
    if (group.empty() || slash == std::string::npos) return min;
    group.resize(slash);
  }
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
      "activations "
      "and workspace {}; {}",
      size_text(asked), name_of(part), size_text(held.parameters), size_text(held.gradients),
      size_text(held.optimizer), size_text(held.activations), limit.text());
}

std::string MemoryLimit::text() const { return fmt::format("{} {}", whose, size_text(total)); }

OutOfMemory::OutOfMemory(const MemoryReport& report)
    : Error(ErrorKind::memory, report.text() + (report.weights_dominate()
                                                    ? "; lower `dim`, `ffn` or `layers`"
                                                    : "; lower `batch`, `length`, `dim` or `ffn`")),
      report_(report) {}

size_t container_memory(const std::string& groups, const std::string& mount) {
  std::ifstream file(groups);
  size_t min = SIZE_MAX;
  for (std::string line;
       std::getline(file, line);) {  // "0::/path" of version 2, "7:cpu,memory:/path" of version 1
    const size_t first = line.find(':'),
                 second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      min = std::min(min, lowest_limit(mount, group, "memory.max"));
      min = std::min(min, lowest_limit(mount + "/unified", group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      min = std::min(min, lowest_limit(mount + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return min;
}

// The address space that this process has mapped.
size_t mapped_memory() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
}

// An eighth of the memory, at most 128 MiB, is reserved for the program, its data and the buffers
// of BLAS: a container that exceeds its limit is killed without a message. Where the address space
// is limited, the mapped size is known and the rest is available.
MemoryLimit machine_memory() {
  constexpr size_t kMaxReserve = size_t{128} << 20;
  const size_t machine =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  const size_t container = container_memory("/proc/self/cgroup", "/sys/fs/cgroup");
  rlimit process{};
  const size_t allowed = getrlimit(RLIMIT_AS, &process) == 0 && process.rlim_cur != RLIM_INFINITY
                             ? process.rlim_cur
                             : SIZE_MAX;
  const size_t total = std::min({machine, container, allowed});
  const size_t reserve =
      total == allowed ? mapped_memory() + total / 32 : std::min(total / 8, kMaxReserve);
  return {total - std::min(total, reserve), total,
          total == machine     ? "the machine has"
          : total == container ? "the container may have"
                               : "this process may have (ulimit -v)"};
}

}  // namespace linea
