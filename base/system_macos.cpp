#include <crt_externs.h>
#include <fcntl.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <unistd.h>
#include <xlocale.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/system.h"

namespace linea {

std::string program_file() {
  uint32_t bytes = 0;
  _NSGetExecutablePath(nullptr, &bytes);
  std::string path(bytes, '\0');
  _NSGetExecutablePath(path.data(), &bytes);
  return path.c_str();  // without the zero that ends it
}

std::filesystem::path program_folder() {
  std::error_code error;
  return std::filesystem::canonical(program_file(), error).parent_path();
}

std::vector<std::string> command_line() { return {*_NSGetArgv(), *_NSGetArgv() + *_NSGetArgc()}; }

std::string processor_name() {
  std::array<char, 256> name{};
  size_t bytes = name.size() - 1;
  return sysctlbyname("machdep.cpu.brand_string", name.data(), &bytes, nullptr, 0) == 0
             ? name.data()
             : "unknown processor";
}

bool has_bfmmla() {
  int there = 0;
  size_t bytes = sizeof there;
  return sysctlbyname("hw.optional.arm.FEAT_BF16", &there, &bytes, nullptr, 0) == 0 && there != 0;
}

std::string core_mask() { return ""; }

bool allow_tile_registers() { return false; }

// Inactive pages are given up where memory is short.
SystemMemory installed_memory(const std::string&) {
  SystemMemory memory;
  uint64_t total = 0;
  size_t bytes = sizeof total;
  if (sysctlbyname("hw.memsize", &total, &bytes, nullptr, 0) == 0) memory.total = total;
  const mach_port_t host = mach_host_self();
  vm_statistics64_data_t pages{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) ==
      KERN_SUCCESS)
    memory.available = (size_t{pages.free_count} + pages.inactive_count) *
                       static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  mach_port_deallocate(mach_task_self(), host);
  return memory;
}

SystemMemory container_memory(const std::string&) { return {}; }

SystemMemory process_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  mach_task_basic_info_data_t task{};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&task), &count);
  const auto bytes = static_cast<size_t>(limit.rlim_cur);
  return {bytes, bytes - std::min(bytes, static_cast<size_t>(task.virtual_size))};
}

size_t peak_resident_bytes() {
  rusage use{};
  if (getrusage(RUSAGE_SELF, &use) != 0)
    fail(ErrorKind::input, "this system does not report the memory of a process");
  return static_cast<size_t>(use.ru_maxrss);
}

void advise_huge_pages(void*, size_t) {}

// The system counts those of all threads together. While one waits for other ranks, the others do
// not compute.
int64_t count_thread_preemptions() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_nivcsw;
}

int open_pipe(std::array<int, 2>& ends) {
  if (pipe(ends.data()) != 0) return -1;
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  return 0;
}

// fsync alone leaves bytes in the disk's own memory. File systems that are not Apple's may have no
// more than that.
int flush_file(int descriptor) {
  const int result = fcntl(descriptor, F_FULLFSYNC);
  return result == 0 || errno == EINTR ? result : fsync(descriptor);
}

int exchange_files(const std::filesystem::path& one, const std::filesystem::path& other) {
  const int result = renamex_np(one.c_str(), other.c_str(), RENAME_SWAP);
  if (result != 0 && errno == ENOTSUP) errno = EINVAL;
  return result;
}

timespec modification_time(const struct stat& facts) { return facts.st_mtimespec; }

// By strtod in the locale C; what it takes beyond that is a sign +, blanks before the number and
// hexadecimal digits.
std::from_chars_result read_double(const char* first, const char* last, double& value) {
  const std::string text(first, last);
  if (text.find_first_of("+ \t\n\v\f\r") == 0 || text.find_first_of("xX") != std::string::npos)
    return {first, std::errc::invalid_argument};
  char* end = nullptr;
  errno = 0;
  const double number = strtod_l(text.c_str(), &end, LC_C_LOCALE);
  const auto length = end - text.c_str();
  if (length == 0) return {first, std::errc::invalid_argument};
  if (errno == ERANGE) return {first + length, std::errc::result_out_of_range};
  value = number;
  return {first + length, std::errc()};
}

}  // namespace linea
