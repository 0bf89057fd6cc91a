// The whole command line as a function, for programs that add mechanisms of their own
// (examples/my_attention.cpp).
#pragma once

#include <string>

namespace linea {

// Parses and runs a command. -> the exit code; errors are printed to stderr. Call it first in main,
// after registering mechanisms: it may restart the process once (GOMP_SPINCOUNT).
int run_program(int argc, char** argv);

// The version and, when built from a checkout, its commit: "0.2.0 (de5e31a)".
std::string version();

}  // namespace linea
