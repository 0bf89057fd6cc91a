// The part of the machine that a verb runs on.
#pragma once

#include <cstdint>
#include <string>

namespace linea {

// --threads (0: all cores) and --device. Error: ErrorKind::usage where there is no such device.
void use_machine(int64_t threads, const std::string& device);

}  // namespace linea
