// linea bench: speeds and bytes, each relative to the BLAS rate of this machine in the same run.
#include "bench/bench.h"
#include "cli/commands.h"
#include "cli/flags.h"

namespace linea {

void add_bench(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "bench", "measure speed and memory");
  require_command(command);
  for (const auto add :
       {bench::add_attention, bench::add_train, bench::add_sample, bench::add_memory})
    add(command, exit_code);
}

}  // namespace linea
