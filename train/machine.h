// Threads, device and data type of a command.
#pragma once

#include <cstdint>
#include <string>

namespace linea {

// A CPU supports bf16 only for sampling, where it stores the weights.
enum class Work { training, sampling };

// Applies the settings threads (0: all cores), device and dtype. Error: ErrorKind::usage where
// there is no such device.
void use_machine(int64_t threads, const std::string& device, const std::string& dtype = "fp32",
                 Work work = Work::training);
// Error: ErrorKind::usage for unknown names or an unsupported combination.
void check_machine(const std::string& device, const std::string& dtype, Work work = Work::training);

}  // namespace linea
