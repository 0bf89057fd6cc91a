#include "tensor/tuned_libraries.h"

#include <unistd.h>

#include <cstdlib>

#include "base/system.h"
#include "tensor/backend.h"
#include "tensor/context.h"

namespace linea {

std::string better_blas_kernel(const std::string& kernel, const std::string& isa) {
  if (kernel != "Prescott") return "";
  return isa == "AVX-512" ? "SkylakeX" : isa == "AVX2" ? "Haswell" : "";
}

void restart_with_tuned_libraries(char** argv) {
  bool changed = false;
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr)
    changed = setenv("GOMP_SPINCOUNT", "3000", 1) == 0;
  const std::string kernel = better_blas_kernel(blas_info().kernel, cpu_backends().front()->isa);
  if (!kernel.empty() && std::getenv("OPENBLAS_CORETYPE") == nullptr)
    changed |= setenv("OPENBLAS_CORETYPE", kernel.c_str(), 1) == 0;
  if (changed) execv(program_file().c_str(), argv);
}

}  // namespace linea
