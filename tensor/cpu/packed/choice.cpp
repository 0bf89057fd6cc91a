// Selects the kernel of bf16 products by the processor, or by the environment variable LINEA_ISA.
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <cstdlib>

#include "base/system.h"
#include "tensor/backend.h"
#include "tensor/cpu/packed/gemm.h"

namespace linea::cpu {
namespace {

#ifdef __x86_64__
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, features = 0;
  constexpr unsigned kBf16 = 1U << 22, kTiles = 1U << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &features) == 0) return false;
  return (features & kBf16) != 0 && (features & kTiles) != 0 && allow_tile_registers();
}
#endif

const PackedKernel* choose() {
  const std::vector<const PackedKernel*> found = bf16_kernels();
  const char* const variable = std::getenv("LINEA_ISA");
  const std::string wanted = variable == nullptr ? "" : variable;
  for (const PackedKernel* const one : found) {
    if (wanted.empty() || wanted == one->isa) return one;
    if (wanted == "AVX-512" && one != bf16_amx()) return one;
    if (wanted == "AVX2" && one == bf16_fma()) return one;
  }
  return nullptr;
}

}  // namespace

std::vector<const PackedKernel*> bf16_kernels() {
  std::vector<const PackedKernel*> found;
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bf16");
  if (avx512 && has_amx()) found.push_back(bf16_amx());
  if (avx512) found.push_back(bf16_avx512());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(bf16_fma());
#elif defined(__aarch64__)
  if (has_bfmmla()) found.push_back(bf16_bfmmla());
#endif
  return found;
}

const PackedKernel* bf16_kernel() {
  static const PackedKernel* const chosen = choose();
  return chosen;
}

}  // namespace linea::cpu

namespace linea {

const char* bf16_isa() {
  const cpu::PackedKernel* const kernel = cpu::bf16_kernel();
  return kernel == nullptr ? nullptr : kernel->isa;
}

bool bf16_is_fast() {
  const cpu::PackedKernel* const kernel = cpu::bf16_kernel();
#ifdef __x86_64__
  // Intel's processors compute half as many products by AVX512-BF16 as AMD's.
  if (kernel == cpu::bf16_avx512() && __builtin_cpu_is("intel")) return false;
#endif
  return kernel != nullptr && kernel->fast;
}

bool rounds_chunks() { return bf16_is_fast() && cpu::bf16_kernel()->multiply_band != nullptr; }

FloatProducts chunk_products(const Context& ctx, bool decays) {
  return ctx.device.kind == DeviceKind::cpu && rounds_chunks() && !decays ? ctx.products
                                                                          : FloatProducts::exact;
}

std::vector<std::string> all_bf16_isas() {
  std::vector<std::string> names;
  for (const cpu::PackedKernel* const one : cpu::bf16_kernels()) names.emplace_back(one->isa);
  return names;
}

}  // namespace linea
