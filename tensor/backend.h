// The backends that tensor/ knows.
#pragma once

#include "tensor/kernels.h"

namespace linea {

const Backend& cpu_backend();

}  // namespace linea
