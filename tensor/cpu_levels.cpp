// Which of the CPU kernels that this program holds are used: cmake/cpu_levels.cmake compiles
// tensor/cpu/ several times.
#include <fmt/ranges.h>

#include <cstdlib>

#include "tensor/backend.h"
#include "tensor/error.h"

namespace linea {

const Backend& cpu_backend_base();
#ifdef LINEA_CPU_LEVELS
const Backend& cpu_backend_avx2();
const Backend& cpu_backend_avx512();
#endif

std::vector<const Backend*> cpu_backends() {
  std::vector<const Backend*> found;
#ifdef LINEA_CPU_LEVELS
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.push_back(&cpu_backend_avx512());
  if (avx2) found.push_back(&cpu_backend_avx2());
#endif
  found.push_back(&cpu_backend_base());
  return found;
}

namespace {

const Backend& choose() {
  const std::vector<const Backend*> found = cpu_backends();
  const char* const wanted = std::getenv("LINEA_VECTORS");
  if (wanted == nullptr || *wanted == '\0') return *found.front();
  for (const Backend* const one : found)
    if (std::string(wanted) == one->vectors) return *one;
  fail(ErrorKind::usage, "LINEA_VECTORS is '{}'; on this processor this program has {}", wanted,
       fmt::join(all_cpu_vectors(), ", "));
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend& chosen = choose();
  return chosen;
}

const char* cpu_vectors() { return cpu_backend().vectors; }
std::vector<std::string> all_cpu_vectors() {
  std::vector<std::string> names;
  for (const Backend* const one : cpu_backends()) names.emplace_back(one->vectors);
  return names;
}

}  // namespace linea
