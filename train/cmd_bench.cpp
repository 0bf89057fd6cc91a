// linea bench: speeds and bytes, each beside the rate of this machine's BLAS in the same run.
#include "train/bench.h"
#include "train/commands.h"
#include "train/flags.h"

namespace linea {

void add_bench(CLI::App& program, int& exit_code) {
  CLI::App& verb = add_verb(program, "bench", "measure speed and memory");
  require_verb(verb);
  for (const auto add :
       {bench::add_attention, bench::add_train, bench::add_sample, bench::add_memory})
    add(verb, exit_code);
}

}  // namespace linea
