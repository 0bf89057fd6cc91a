// The flags of commands that sample from a model and write images.
#pragma once

#include <string>

#include "nn/generation.h"

namespace CLI {
class App;
}

namespace linea {

// `seed` stands for sampling.seed, which is never negative.
void add_sampling_flags(CLI::App& command, SamplingOptions& sampling, int64_t& seed);
// Once the flags are read. Error: ErrorKind::usage, a value that is out of range.
void check_sampling_flags(SamplingOptions& sampling, int64_t seed);

// --weights, which weights_named (train/weights.h) reads.
void add_weights_flag(CLI::App& command, std::string& weights, bool best);  // best: with --best

// Checks --out. Error: ErrorKind::usage where the name has another extension than .png.
void check_png_name(const std::string& out);
// A name that no file has: STEM.png, STEM-2.png, ...
std::string free_png_name(const std::string& stem);

}  // namespace linea
