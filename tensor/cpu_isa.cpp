// Selects the instruction set of the CPU kernels: cmake/cpu_isa.cmake compiles tensor/cpu/ several
// times. tensor/cpu/packed/choice.cpp selects that of bf16 products.
#include <fmt/ranges.h>

#include <cstdlib>

#include "base/error.h"
#include "tensor/backend.h"

namespace linea {

const Backend& cpu_backend_base();
#ifdef LINEA_CPU_ISA
const Backend& cpu_backend_avx2();
const Backend& cpu_backend_avx512();
#endif

std::vector<const Backend*> cpu_backends() {
  std::vector<const Backend*> found;
#ifdef LINEA_CPU_ISA
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
  const char* const wanted = std::getenv("LINEA_ISA");
  if (wanted == nullptr || *wanted == '\0') return *found.front();
  for (const Backend* const one : found)
    if (std::string(wanted) == one->isa) return *one;
  for (const std::string& name : all_bf16_isas())
    if (wanted == name) return *found.front();
  fail(ErrorKind::usage,
       "LINEA_ISA is '{}'; on this processor this program has {}; for bf16 products {}", wanted,
       fmt::join(all_cpu_isas(), ", "), fmt::join(all_bf16_isas(), ", "));
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend& chosen = choose();
  return chosen;
}

const char* cpu_isa() { return cpu_backend().isa; }
std::vector<std::string> all_cpu_isas() {
  std::vector<std::string> names;
  for (const Backend* const one : cpu_backends()) names.emplace_back(one->isa);
  return names;
}

}  // namespace linea
