#include "parallel/launch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/system.h"

namespace linea {
namespace {

int stderr_before = -1;  // while stderr leads nowhere

// Also of what libraries print.
void be_silent() {
  std::fflush(nullptr);
  stderr_before = dup(STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY);
  if (stderr_before < 0 || nowhere < 0) return;
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

void speak() {
  if (stderr_before >= 0) dup2(stderr_before, STDERR_FILENO);
}

// By the module that knows MPI, next to the program or where it is installed; null without one. Error:
// ErrorKind::usage, its MPI is not there.
std::unique_ptr<Transport> start_transport() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = program_folder();
  for (const fs::path& module :
       {folder / "linea-mpi.so", folder / "../libexec/linea/linea-mpi.so"}) {
    if (!fs::exists(module, error)) continue;
    // MPI's own modules look its functions up among those of all.
    void* const library = dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* const start = library == nullptr ? nullptr : dlsym(library, "linea_start_mpi");
    if (start == nullptr)
      fail(ErrorKind::usage, "MPI cannot be loaded: {}; install the one that linea was built with",
           dlerror());
    return std::unique_ptr<Transport>(reinterpret_cast<Transport* (*)()>(start)());
  }
  return nullptr;
}

std::unique_ptr<Ranks> started;
std::unique_ptr<UseRanks> in_use;

}  // namespace

Launch detect_launch(const std::function<const char*(const char*)>& variable) {
  const auto number = [&](const char* name, int missing) {
    const char* const text = variable(name);
    return text == nullptr ? missing : std::atoi(text);
  };
  if (const int ranks = number("OMPI_COMM_WORLD_SIZE", 0); ranks > 0)
    return {ranks, number("OMPI_COMM_WORLD_RANK", 0), "Open MPI's mpirun"};
  if (const int ranks = number("PMI_SIZE", 0); ranks > 0)
    return {ranks, number("PMI_RANK", 0), "MPICH's mpiexec"};
  if (variable("PMIX_RANK") != nullptr) return {0, number("PMIX_RANK", 0), "a launcher of PMIx"};
  if (const int tasks = number("SLURM_STEP_NUM_TASKS", 1); tasks > 1)
    fail(ErrorKind::usage,
         "srun started {} tasks that do not know of each other: give it --mpi=pmix (Open MPI) or "
         "--mpi=pmi2 (MPICH)",
         tasks);
  return {};
}

void start_ranks() {
  const Launch launch = detect_launch([](const char* name) { return std::getenv(name); });
  if (launch.ranks == 1) return;
  if (launch.rank > 0) be_silent();  // before an error that all have
  std::unique_ptr<Transport> transport = start_transport();
  if (transport == nullptr)
    fail(ErrorKind::usage,
         "{} started {} of this program, which was built without MPI: install libopenmpi-dev and "
         "build again, or start it once, without {}",
         launch.launcher, launch.ranks == 0 ? "several" : std::to_string(launch.ranks),
         launch.launcher);
  if (launch.ranks > transport->size())
    fail(ErrorKind::usage,
         "started {} times by {}, but this program was built with {}: use its mpirun", launch.ranks,
         launch.launcher, transport->library());
  const char* const check = std::getenv("LINEA_CHECK_EXCHANGES");
  started = std::make_unique<Ranks>(std::move(transport), check != nullptr && *check == '1');
  in_use = std::make_unique<UseRanks>(*started);
}

int end_ranks(int code) {
  if (started) started->end();
  return code;
}

int fail_ranks(int code, const std::string& message,
               const std::function<void(const std::string&)>& print) {
  constexpr double kOthersFail = 0.5;  // seconds
  constexpr std::chrono::seconds kOthersSpeak{2};
  Ranks& all = ranks();
  if (all.alone()) {
    print(message);
    return code;
  }
  const bool lost = code == static_cast<int>(kRanksError);
  if (!lost && all.all_failed(code, kOthersFail)) {
    print(message);
    all.end();
    return code;
  }
  // Several ranks miss a lost one: the first to say so ends the others.
  if (lost && !all.is_main()) std::this_thread::sleep_for(kOthersSpeak);
  speak();
  print(all.is_main() || lost ? message : all.name(all.rank()) + ": " + message);
  std::fflush(nullptr);
  all.abort(code);
}

}  // namespace linea
