#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/system.h"

namespace linea {
namespace {

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

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGE_SIZE)); }

}  // namespace

std::string program_file() { return "/proc/self/exe"; }

std::filesystem::path program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink(program_file(), error).parent_path();
}

std::vector<std::string> command_line() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

std::string core_mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "";
  std::string mask;
  for (int core = 0; core < CPU_SETSIZE; ++core) mask += CPU_ISSET(core, &set) ? '1' : '0';
  return mask;
}

bool allow_tile_registers() {
#ifdef SYS_arch_prctl
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

bool has_bfmmla() {
#ifdef __aarch64__
  return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
  return false;
#endif
}

// MemTotal and MemAvailable of /proc/meminfo.
SystemMemory installed_memory(const std::string& root) {
  const std::map<std::string, size_t> kilobytes = read_numbers(root + "/proc/meminfo");
  const auto bytes = [&](const char* name) {
    const auto found = kilobytes.find(name);
    return found == kilobytes.end() ? SIZE_MAX : found->second << 10;
  };
  SystemMemory memory{bytes("MemTotal:"), bytes("MemAvailable:")};
  if (memory.total == SIZE_MAX)
    memory.total = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  return memory;
}

// memory.max, memory.current and memory.stat of version 2, memory/.../memory.limit_in_bytes,
// memory.usage_in_bytes and memory.stat of version 1.
SystemMemory container_memory(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
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

SystemMemory process_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  std::ifstream file("/proc/self/statm");
  size_t mapped = 0;  // pages
  file >> mapped;
  const auto bytes = static_cast<size_t>(limit.rlim_cur);
  return {bytes, bytes - std::min(bytes, mapped * page_bytes())};
}

size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoul(line.substr(6)) << 10;
  fail(ErrorKind::input,
       "/proc/self/status has no VmHWM: this system does not report the memory of a process");
}

void advise_huge_pages(void* block, size_t bytes) { madvise(block, bytes, MADV_HUGEPAGE); }

int64_t count_thread_preemptions() {
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_nivcsw;
}

int open_pipe(std::array<int, 2>& ends) { return pipe2(ends.data(), O_CLOEXEC); }

int flush_file(int descriptor) { return fsync(descriptor); }

int exchange_files(const std::filesystem::path& one, const std::filesystem::path& other) {
  return renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
}

timespec modification_time(const struct stat& facts) { return facts.st_mtim; }

std::from_chars_result read_double(const char* first, const char* last, double& value) {
  return std::from_chars(first, last, value);
}

}  // namespace linea
