// linea bench: speeds and bytes, each beside the rate of this machine's BLAS in the same run.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "train/bench.h"
#include "train/commands.h"

namespace linea {

void add_bench(CLI::App& program, int& exit_code) {
  CLI::App* verb = program.add_subcommand("bench", "measure speed and memory");
  verb->require_subcommand(1);
  for (const auto add : {bench::add_attention, bench::add_train, bench::add_sample, bench::add_memory})
    add(*verb, exit_code);
}

}  // namespace linea
