// The backends that tensor/ knows.
#pragma once

#include "tensor/kernels.h"

namespace linea {

// Of the CPU: the one in use, and all that this processor runs, the widest vectors first.
const Backend& cpu_backend();
std::vector<const Backend*> cpu_backends();

}  // namespace linea
