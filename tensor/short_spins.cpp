#include "tensor/short_spins.h"

#include <unistd.h>

#include <cstdlib>

namespace linea {

void restart_with_short_spins(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "3000", 1) == 0) execv("/proc/self/exe", argv);
}

}  // namespace linea
