// Shared by the benches: measuring time and bytes, the rate of this machine's BLAS, with which
// every speed is compared, the FLOPs of an attention, and the measured models.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/commands.h"

namespace linea::bench {

// The median of the times of `work`, called at least three times and for at least `seconds`.
double median_seconds(double seconds, const std::function<void()>& work);
// Bytes in tensors at the peak of `work` beyond those held before it.
double extra_bytes(const std::function<void()>& work);

// The machine that a bench describes first.
struct Machine {
  BlasInfo blas;
  int threads;
  double sgemm_gflops;   // GFLOP/s of square products of the run's dtype (bench/device_rates.h), on
                         // its device
  std::string dtype;     // fp32, tf32 or bf16
  std::string device;    // cpu, or what `linea info` calls it
  double read_gb_per_s;  // of a device that is no CPU, else 0
};
Machine measure_machine(double seconds, const std::string& dtype = "fp32");
std::string summary_of(const Machine& machine);
nlohmann::ordered_json json_of(const Machine& machine);

// Says on stderr where bf16 gains no time.
void warn_of_slow_bf16();

// Errors: ErrorKind::usage, a size below 1; a time that is negative or not finite.
void check_size(const char* key, int64_t value);
void check_seconds(double seconds);

// Fills choice.config, sets the threads. Error: an unknown preset, settings that cannot work.
ModelConfig chosen_model(ModelChoice& choice);
// What a task of such a model is, without data.
TaskShape shape_of(const ModelConfig& config);
// "linear --feature elu, 4 layers, 4 heads, dim 128, ffn 512, length 64, 65 tokens"
std::string summary_of(const ModelConfig& config);

}  // namespace linea::bench
