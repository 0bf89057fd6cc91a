// OpenMP and OpenBLAS, as they read their variables before main.
#pragma once

#include <string>

namespace linea {

// To be called first in main, as the program `linea` does: starts the program again, once, with
// what is missing of two variables, and returns at once where nothing is.
//
// GOMP_SPINCOUNT=3000, unless OMP_WAIT_POLICY is set: GNU OpenMP lets a thread that waits spin for
// some hundred thousand rounds. On cores that other programs use too, a step or a sample then takes
// several times as long (docs/performance.md); 3000 rounds cost nothing on idle cores.
//
// OPENBLAS_CORETYPE, where the processor is newer than OpenBLAS, which then takes its kernels
// without wide vectors.
void restart_with_tuned_libraries(char** argv);

// The kernels that OpenBLAS should take instead of `kernel` on a processor with the vectors `isa`
// (Backend::isa); empty: none. "Prescott" are those of an unknown processor.
std::string better_blas_kernel(const std::string& kernel, const std::string& isa);

}  // namespace linea
