// The part of the machine that a verb runs on.
#pragma once

#include <cstdint>
#include <string>

namespace linea {

// --threads (0: all cores), --device and --dtype. Error: ErrorKind::usage where there is no such device.
void use_machine(int64_t threads, const std::string& device, const std::string& dtype = "fp32");
// Error: ErrorKind::usage for names that do not exist or do not go together.
void check_machine(const std::string& device, const std::string& dtype);

}  // namespace linea
