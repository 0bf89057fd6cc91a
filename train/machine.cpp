#include "train/machine.h"

#include "tensor/context.h"

namespace linea {

void use_machine(int64_t threads, const std::string& device) {
  if (threads > 0) set_threads(static_cast<int>(threads));
  use_device(device_of(device));
}

}  // namespace linea
