// linea approx: how well random features estimate softmax attention (bench/approx.h).
#include <limits>
#include <memory>

#include "bench/approx.h"
#include "bench/approx_kernel.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "data/files.h"
#include "tensor/context.h"

namespace linea {
namespace {

struct KernelFlags {
  bool asked = false;
  int64_t rows = 64;
};

void run_kernel(const CLI::App& command, const approx::Options& options, int64_t rows) {
  approx::KernelOptions kernel;
  if (was_given(command, "--features")) kernel.features = options.features;
  if (was_given(command, "--draws")) kernel.draws = options.draws;
  kernel.rows = rows;
  if (was_given(command, "--key-size")) kernel.key_size = options.key_size;
  kernel.seed = options.seed;
  kernel.json = options.json;
  if (options.threads != 0) set_threads(static_cast<int>(options.threads));
  approx::print_kernel(kernel, approx::measure_kernel(kernel));
}

// Every feature with every projection at every count, in that order.
std::vector<approx::Estimate> asked_estimates(const approx::Options& options) {
  check_range("--length", options.length, 1, int64_t{1} << 24);
  check_range("--key-size", options.key_size, 1, 4096);
  check_range("--draws", options.draws, 1, 1000000);
  check_range("--seed", options.seed, 0, std::numeric_limits<int64_t>::max());
  require(options.stddev > 0 && options.stddev <= 10,
          "--stddev is {}; it must be above 0 and at most 10", options.stddev);
  std::vector<approx::Estimate> result;
  for (const std::string& feature : options.features)
    for (const std::string& projection : options.projections)
      for (const int64_t count : options.counts) {
        check_range("a number in --counts", count, 1, int64_t{1} << 20);
        const approx::Kind kind = approx::kind_of(feature);
        require(
            count % approx::features_a_row(kind) == 0,
            "--counts has {}; {} makes two features per row of omega, so the count must be even",
            count, feature);
        result.push_back({feature, projection, kind, parse_projection(projection), count});
      }
  return result;
}

void run_approx(const approx::Options& options) {
  std::vector<approx::Estimate> estimates = asked_estimates(options);
  if (options.threads != 0) set_threads(static_cast<int>(options.threads));
  for (const std::string& path : {options.csv, options.svg})
    if (!path.empty())
      AtomicFile probe(path);  // a folder that takes no files is an error now, not in minutes
  TerminalProgress progress;
  approx::measure_errors(options, estimates, progress);
  options.json ? approx::print_json(estimates) : approx::print_table(options, estimates);
  if (!options.csv.empty()) write_file_atomically(options.csv, approx::csv_text(estimates));
  if (!options.svg.empty()) approx::write_error_charts(options.svg, options, estimates);
}

}  // namespace

void add_approx(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<approx::Options>();
  const auto kernel = std::make_shared<KernelFlags>();
  CLI::App& command = add_command(
      program, "approx", "measure how well random features estimate softmax attention",
      "Example:  linea approx --counts 64,256 --draws 20 --svg errors.svg\n"
      "          linea approx --kernel --features positive,trig --rows 64\n\n"
      "Errors are measured on the attention matrix, with rows that sum to 1, and on the output. "
      "hyperbolic and trig\nmake two features per random direction, so at equal --counts they use "
      "half as many directions. The weights\nof trig have signs and may cancel: rows with |sum a| "
      "< 1e-3 sum |a| are counted and excluded from the means.\nThe relu features of performer are "
      "not listed: they do not estimate softmax.");
  add_option(command, "--features", options->features, "comma-separated feature maps",
             OptionKind::comma_separated);
  set_choices(command, "--features", {"positive", "hyperbolic", "trig"});
  add_option(command, "--projections", options->projections,
             "comma-separated distributions of omega", OptionKind::comma_separated);
  set_choices(command, "--projections", {"iid", "orthogonal", "stratified", "fixed-norm"});
  add_option(command, "--counts", options->counts, "comma-separated feature counts",
             OptionKind::comma_separated);
  add_option(command, "--stddev", options->stddev, "standard deviation of q, k and v",
             OptionKind::shows_default);
  add_option(command, "--length", options->length, "N, rows of q, k and v",
             OptionKind::shows_default);
  add_option(command, "--key-size", options->key_size, "D = M", OptionKind::shows_default);
  add_option(command, "--draws", options->draws, "random draws of q, k, v and omega",
             OptionKind::shows_default);
  add_option(command, "--seed", options->seed, "random seed", OptionKind::shows_default);
  add_option(command, "--csv", options->csv, "write the table to this file");
  add_option(command, "--svg", options->svg, "write a chart of the medians to this file");
  add_option(command, "--threads", options->threads, "CPU threads; 0: all cores",
             OptionKind::shows_default);
  add_flag(command, "--json", options->json, "one JSON object per line");
  add_flag(
      command, "--kernel", kernel->asked,
      "instead, the errors of exp(q.k) itself, of two rows, next to those that theory predicts; "
      "20000 draws by default");
  add_option(command, "--rows", kernel->rows, "rows of omega, of --kernel",
             OptionKind::shows_default);
  for (const char* other : {"--projections", "--counts", "--stddev", "--length", "--csv", "--svg"})
    exclude_each_other(command, "--kernel", other);
  set_action(command, [options, kernel, &command, &exit_code] {
    require(kernel->asked || !was_given(command, "--rows"),
            "--rows is of --kernel: add it, or "
            "use --counts");
    kernel->asked ? run_kernel(command, *options, kernel->rows) : run_approx(*options);
    exit_code = 0;
  });
}

}  // namespace linea
