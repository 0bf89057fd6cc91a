// linea bench: speeds and bytes, each relative to the BLAS rate of this machine in the same run.
#include <memory>

#include "bench/commands.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/setting_flags.h"
#include "train/machine.h"

namespace linea {
namespace {

void add_attention_bench(CLI::App& bench, int& exit_code) {
  struct Options {
    bench::AttentionBench bench;
    std::vector<std::string> names = {"softmax", "linear", "performer"};
    Settings given;
  };
  CLI::App& command =
      add_command(bench, "attention", "attention forward and backward, by length",
                  "Example:  linea bench attention --attention softmax,linear --lengths 1024,4096");
  const auto options = std::make_shared<Options>();
  bench::AttentionBench& plain = options->bench;
  add_option(command, "--attention", options->names, "comma-separated names",
             OptionKind::comma_separated);
  set_choices(command, "--attention", attention_names());
  add_option(command, "--lengths", plain.lengths, "comma-separated numbers",
             OptionKind::comma_separated);
  add_option(command, "--batch", plain.batch, "batch size", OptionKind::shows_default);
  add_option(command, "--heads", plain.heads, "heads", OptionKind::shows_default);
  add_option(command, "--key-size", plain.key_size, "D = M", OptionKind::shows_default);
  add_option(command, "--segment", plain.segment, "positions per tile; 0: automatic",
             OptionKind::shows_default);
  add_option(command, "--chunk", plain.chunk, "chunk length; 0: automatic",
             OptionKind::shows_default);
  add_option(command, "--seconds", plain.seconds, "minimum time per measurement",
             OptionKind::shows_default);
  add_option(command, "--svg", plain.svg, "write a chart of the times over N to this file");
  add_option(command, "--threads", plain.threads, "CPU threads; 0: all cores");
  add_option(command, "--device", plain.device, "cpu, cuda, or a device by number such as cuda:1",
             OptionKind::shows_default);
  add_option(command, "--dtype", plain.dtype,
             "fp32, bf16, tf32 on a CUDA device, or auto: bf16 where it is faster",
             OptionKind::shows_default);
  add_flag(command, "--json", plain.json, "one JSON object per line");
  add_mechanism_flags(command, options->given, {"attention"});
  set_action(command, [options, &exit_code] {
    options->bench.attentions = chosen_attentions(options->names, options->given);
    options->bench.dtype = chosen_dtype(options->bench.dtype, options->bench.device);
    bench::run(options->bench);
    exit_code = 0;
  });
}

void add_model(CLI::App& command, bench::ModelChoice& choice) {
  add_option(command, "--preset", choice.preset,
             "the model: nanogpt, mnist-paper, or that of a preset of train (a text has 65 tokens, "
             "or all bytes)",
             OptionKind::shows_default);
  set_choices(command, "--preset", bench::model_preset_names(choice.trains));
  add_option(command, "--length", choice.length, "positions of the model; the preset's by default");
  add_general_flags(command, choice.given.values, [&](const GeneralSetting& general) {
    return bench::changes_model(general, choice.trains);
  });
  std::vector<std::string> kinds = {"attention"};
  if (choice.trains) kinds.push_back("optimizer");
  add_mechanism_flags(command, choice.given.values, kinds);
}

template <typename Bench>
void set_run(CLI::App& command, const std::shared_ptr<Bench>& options, int& exit_code) {
  set_action(command, [options, &exit_code] {
    bench::run(*options);
    exit_code = 0;
  });
}

void add_train_bench(CLI::App& bench, int& exit_code) {
  CLI::App& command = add_command(
      bench, "train", "training steps on random tokens: speed, memory, time per op",
      "Example:  linea bench train --preset mnist-paper --attention performer --steps 5");
  const auto options = std::make_shared<bench::TrainBench>();
  options->model.trains = true;
  add_model(command, options->model);
  add_option(command, "--steps", options->steps, "measured steps", OptionKind::shows_default);
  add_option(command, "--warmup", options->warmup, "warm-up steps before them",
             OptionKind::shows_default);
  add_flag(command, "--json", options->json, "one JSON object per line");
  set_run(command, options, exit_code);
}

void add_scaling_bench(CLI::App& bench, int& exit_code) {
  CLI::App& command = add_command(
      bench, "scaling", "training steps of several processes: measured here, computed for more",
      "Example:  mpirun -n 2 linea bench scaling --preset mnist-paper --threads 1");
  const auto options = std::make_shared<bench::ScalingBench>();
  options->model.trains = true;
  add_model(command, options->model);
  add_option(command, "--repeats", options->repeats, "measured steps of each kind, in turn",
             OptionKind::shows_default);
  add_option(
      command, "--network", options->network,
      "microseconds of a message and GB/s of a network to compute times for, such as 30,1.1");
  add_flag(command, "--json", options->json, "one JSON object");
  set_run(command, options, exit_code);
}

void add_sample_bench(CLI::App& bench, int& exit_code) {
  CLI::App& command =
      add_command(bench, "sample", "sampling with random weights: speed by batch size",
                  "Example:  linea bench sample --preset mnist-paper --batches 1,64");
  const auto options = std::make_shared<bench::SampleBench>();
  options->model.preset = "mnist-paper";
  add_model(command, options->model);
  add_option(command, "--batches,--batch", options->batches, "comma-separated batch sizes",
             OptionKind::comma_separated);
  add_option(command, "--tokens", options->tokens, "timed positions; 0: automatic",
             OptionKind::shows_default);
  add_flag(command, "--json", options->json, "one JSON object per line");
  set_run(command, options, exit_code);
}

void add_memory_bench(CLI::App& bench, int& exit_code) {
  CLI::App& command = add_command(
      bench, "memory", "memory of the gradient of linear attention, computed in four ways",
      "Example:  linea bench memory --lengths 1024,4096 --svg memory.svg");
  const auto options = std::make_shared<bench::MemoryBench>();
  add_option(command, "--lengths", options->lengths, "comma-separated numbers",
             OptionKind::comma_separated);
  add_option(command, "--heads", options->heads, "heads", OptionKind::shows_default);
  add_option(command, "--key-size", options->key_size, "D = M", OptionKind::shows_default);
  add_option(command, "--features", options->features, "random features per head (performer)",
             OptionKind::shows_default);
  add_option(command, "--limit", options->limit, "skip methods that would save more GiB of states",
             OptionKind::shows_default);
  add_option(command, "--seconds", options->seconds, "minimum time per measurement",
             OptionKind::shows_default);
  add_option(command, "--svg", options->svg, "write a chart of bytes over N to this file");
  add_option(command, "--threads", options->threads, "CPU threads; 0: all cores");
  add_flag(command, "--json", options->json, "one JSON object per line");
  set_run(command, options, exit_code);
}

}  // namespace

void add_bench(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "bench", "measure speed and memory",
                                  "Example:  linea help bench attention");
  require_command(command);
  for (const auto add : {add_attention_bench, add_train_bench, add_scaling_bench, add_sample_bench,
                         add_memory_bench})
    add(command, exit_code);
}

}  // namespace linea
