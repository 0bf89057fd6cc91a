#include "train/machine.h"

#include "tensor/context.h"
#include "tensor/error.h"

namespace linea {

void check_machine(const std::string& device, const std::string& dtype, Work work) {
  require(dtype == "fp32" || dtype == "tf32" || dtype == "bf16",
          "--dtype is '{}'; choose fp32, tf32 or bf16", dtype);
  const bool stores_weights = dtype == "bf16" && work == Work::sampling;
  require(dtype == "fp32" || stores_weights || parse_device(device).kind == DeviceKind::cuda,
          "--dtype {} needs --device cuda; a CPU computes in fp32", dtype);
  parse_device(device);
}

void use_machine(int64_t threads, const std::string& device, const std::string& dtype, Work work) {
  check_machine(device, dtype, work);
  if (threads > 0) set_threads(static_cast<int>(threads));
  use_device(parse_device(device));
  context().products = dtype == "tf32"   ? FloatProducts::rounded
                       : dtype == "bf16" ? FloatProducts::split
                                         : FloatProducts::exact;
}

}  // namespace linea
