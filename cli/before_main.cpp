// A check before the program's libraries start. OpenBLAS allocates its buffers while it is loaded
// and retries forever if it gets none: under a limit on the process's memory (ulimit -v) that is
// too low for them, main would never run. Functions in .preinit_array run before those of any
// library (ELF gABI, "Initialization and Termination Functions"); they may call only plain system
// calls.
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace {

constexpr size_t kBuffer = size_t{128} << 20;  // per thread: OpenBLAS's largest on any x86
constexpr size_t kProgram = size_t{64} << 20;  // other mappings before main
constexpr int kOutOfMemory = 5;                // linea::ErrorKind::memory

size_t count_threads(char** environment) {
  cpu_set_t cores;
  size_t threads =
      sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<size_t>(CPU_COUNT(&cores)) : 1;
  constexpr const char* kName = "OMP_NUM_THREADS=";
  for (; *environment != nullptr; ++environment)
    if (std::strncmp(*environment, kName, std::strlen(kName)) == 0) {
      size_t value = 0;
      for (const char* digit = *environment + std::strlen(kName);
           *digit >= '0' && *digit <= '9' && value < 4096; ++digit)
        value = 10 * value + static_cast<size_t>(*digit - '0');
      if (value > 0) threads = value;
    }
  return threads;
}

void require_room_for_blas(int, char**, char** environment) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const size_t bytes = (count_threads(environment) + 1) * kBuffer + kProgram;
  void* const room =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room != MAP_FAILED) {
    munmap(room, bytes);
    return;
  }
  constexpr char kText[] =
      "linea: out of memory: the limit on this process's memory (ulimit -v) leaves no room for the "
      "buffers of BLAS, "
      "128 MiB per thread and 128 MiB more: raise it, or set OMP_NUM_THREADS=1\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(kOutOfMemory);
}

}  // namespace

extern "C" {
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const linea_before_main)(int, char**,
                                                                   char**) = require_room_for_blas;
}
