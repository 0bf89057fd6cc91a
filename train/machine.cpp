#include "train/machine.h"

#include "base/error.h"
#include "tensor/backend.h"

namespace linea {

std::string chosen_dtype(const std::string& dtype, const std::string& device) {
  if (dtype != "auto") return dtype;
  return parse_device(device).kind == DeviceKind::cuda || bf16_is_fast() ? "bf16" : "fp32";
}

void check_machine(const std::string& device, const std::string& dtype, Work work) {
  require(dtype == "fp32" || dtype == "tf32" || dtype == "bf16",
          "`dtype` is '{}'; choose fp32, tf32, bf16 or auto", dtype);
  if (parse_device(device).kind == DeviceKind::cuda || dtype == "fp32") return;
  require(dtype == "bf16", "`dtype` {} needs `device` cuda; a CPU computes this in fp32", dtype);
  require(work == Work::sampling || bf16_isa() != nullptr,
          "`dtype` bf16 needs a CPU with AVX2 and FMA, or ARM64's BF16, for training, and this "
          "program uses {}: train in fp32",
          cpu_isa());
}

void use_machine(int64_t threads, const std::string& device, const std::string& dtype, Work work) {
  check_machine(device, dtype, work);
  require(threads >= 0 && threads <= kMaxThreads, "`threads` is {}; it must be in 0..{}", threads,
          kMaxThreads);
  if (threads > 0) set_threads(static_cast<int>(threads));
  use_device(parse_device(device));
  const bool trains_on_cpu = context().device.kind == DeviceKind::cpu && work == Work::training;
  context().products = dtype == "fp32"                    ? FloatProducts::exact
                       : dtype == "tf32" || trains_on_cpu ? FloatProducts::rounded
                                                          : FloatProducts::split;
}

bool rounds_on_cpu() {
  return context().device.kind == DeviceKind::cpu && context().products == FloatProducts::rounded;
}

std::string slow_bf16_note() {
  if (!rounds_on_cpu() || bf16_is_fast()) return "";
  return "bf16 is not faster than fp32 here, or unmeasured: AMX is, and AVX512-BF16 of AMD";
}

}  // namespace linea
