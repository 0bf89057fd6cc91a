// The part of the machine that a command runs on.
#pragma once

#include <cstdint>
#include <string>

namespace linea {

// What a command does: a CPU draws by weights of bf16, and does all else in fp32.
enum class Work { training, drawing };

// --threads (0: all cores), --device and --dtype. Error: ErrorKind::usage where there is no such
// device.
void use_machine(int64_t threads, const std::string& device, const std::string& dtype = "fp32",
                 Work work = Work::training);
// Error: ErrorKind::usage for names that do not exist or do not go together.
void check_machine(const std::string& device, const std::string& dtype, Work work = Work::training);

}  // namespace linea
