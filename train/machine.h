// Threads, device and data type of a command.
#pragma once

#include <cstdint>
#include <string>

namespace linea {

// On a CPU bf16 is the dtype of the factors of products in training, of stored weights in sampling.
enum class Work { training, sampling };

constexpr int64_t kMaxThreads = 4096;

// Applies the settings threads (0: all cores), device and dtype. Error: ErrorKind::usage where
// there is no such device, or for threads outside of 0..kMaxThreads.
void use_machine(int64_t threads, const std::string& device, const std::string& dtype = "fp32",
                 Work work = Work::training);
// What dtype `auto` is on this machine: bf16 where it is faster than fp32, as on every CUDA device.
// Others are themselves.
std::string chosen_dtype(const std::string& dtype, const std::string& device);
// Error: ErrorKind::usage for unknown names or an unsupported combination.
void check_machine(const std::string& device, const std::string& dtype, Work work = Work::training);

// Whether this thread's products of layers on a CPU round their factors to bf16; and a line for the
// user where that gains no time, or an empty one.
bool rounds_on_cpu();
std::string slow_bf16_note();

}  // namespace linea
