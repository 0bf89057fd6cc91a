#include "tensor/memory_report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace linea {
namespace {

thread_local MemoryPart current_part = MemoryPart::activations;
const MemoryBreakdown* breakdown = nullptr;
size_t sharing_processes = 1;

std::string size_text(size_t bytes) {
  const double mib = static_cast<double>(bytes) / 1048576.0;
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

// A number of bytes; SIZE_MAX for "max", a missing file and other text.
size_t read_limit(const std::string& path) {
  std::ifstream file(path);
  size_t bytes = 0;
  std::string rest;
  return file >> bytes && !(file >> rest) ? bytes : SIZE_MAX;
}

// The numbers of a file by their names, one a line as "name 123" or "name 123 kB".
std::map<std::string, size_t> read_numbers(const std::string& path) {
  std::ifstream file(path);
  std::map<std::string, size_t> numbers;
  std::string name, rest;
  for (size_t number = 0; file >> name >> number; std::getline(file, rest)) numbers[name] = number;
  return numbers;
}

// The files of a version of control groups, and the names of the file pages in memory.stat, which
// are given up where memory is short.
struct GroupFiles {
  const char *limit, *use, *active, *inactive;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_active_file", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "active_file", "inactive_file"};

// A group and its parents; the one with the least available so far is in `least`.
void read_groups(const std::string& mount, std::string group, const GroupFiles& files,
                 SystemMemory& least) {
  while (true) {
    const std::string folder = mount + (group == "/" ? "" : group) + "/";
    const size_t limit = read_limit(folder + files.limit);
    if (limit != SIZE_MAX) {
      std::map<std::string, size_t> stat = read_numbers(folder + "memory.stat");
      const size_t use = read_limit(folder + files.use),
                   pages = stat[files.active] + stat[files.inactive],
                   fixed = use == SIZE_MAX ? 0 : use - std::min(use, pages);
      const size_t available = limit - std::min(limit, fixed);
      if (available < least.available) least = {limit, available};
    }
    const size_t slash = group.find_last_of('/');
    if (group.empty() || slash == std::string::npos) return;
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

SystemMemory installed_memory(const std::string& path) {
  const std::map<std::string, size_t> kilobytes = read_numbers(path);
  const auto bytes = [&](const char* name) {
    const auto found = kilobytes.find(name);
    return found == kilobytes.end() ? SIZE_MAX : found->second << 10;
  };
  return {bytes("MemTotal:"), bytes("MemAvailable:")};
}

SystemMemory container_memory(const std::string& groups, const std::string& mount) {
  std::ifstream file(groups);
  SystemMemory least;
  for (std::string line;
       std::getline(file, line);) {  // "0::/path" of version 2, "7:cpu,memory:/path" of version 1
    const size_t first = line.find(':'),
                 second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      read_groups(mount, group, kVersion2, least);
      read_groups(mount + "/unified", group, kVersion2, least);
    } else if (controllers.find(",memory,") != std::string::npos) {
      read_groups(mount + "/memory", group, kVersion1, least);
    }
  }
  return least;
}

// The address space that this process has mapped.
size_t mapped_memory() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
}

void share_machine_memory(int processes) {
  sharing_processes = static_cast<size_t>(std::max(1, processes));
}

// An eighth of the memory, at most 128 MiB, is reserved for what the program takes besides tensors:
// a machine or container without memory kills a process without a message. Where the address space
// is limited, the mapped size is known, and a 32nd is reserved.
MemoryLimit machine_memory(size_t taken, const MemoryFiles& files) {
  constexpr size_t kMaxReserve = size_t{128} << 20;
  SystemMemory machine = installed_memory(files.machine);
  if (machine.total == SIZE_MAX)
    machine.total =
        static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  const SystemMemory container = container_memory(files.groups, files.mount);
  SystemMemory process;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const auto most = static_cast<size_t>(limit.rlim_cur);
    process = {most, most - std::min(most, mapped_memory())};
  }

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
