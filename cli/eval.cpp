// linea eval: how well a trained model predicts a split of its data.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "data/json.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/machine.h"
#include "train/out_of_memory_hint.h"

namespace linea {
namespace {

struct EvalOptions {
  std::string run, data, split = "val";
  int64_t threads = 0;
  std::string device = "cpu";
  bool json = false;
};

Split split_named(const std::string& name) {
  for (const Split split : {Split::train, Split::val, Split::test})
    if (name == split_name(split)) return split;
  fail(ErrorKind::usage, "--split is '{}'; choose val or test", name);
}

void run_eval(const EvalOptions& options) {
  const Split split = split_named(options.split);
  use_machine(options.threads, options.device);
  SavedModel saved = load_model(options.run);
  print_note(saved.note);
  if (!options.data.empty()) set_data(saved.config, options.data);
  const std::unique_ptr<Task> task = make_task(task_options(saved.config, saved.vocabulary));
  TerminalProgress progress;
  for (const std::string& note : task->notes()) progress.note(note);
  const Score score = with_model_memory(saved.model.get(), machine_hint(), [&] {
    return evaluate(*saved.model, *task, split, saved.config.batch, 0,
                    show_time_left(progress, "sequences"));
  });
  if (progress.is_terminal()) progress.note("");
  if (!std::isfinite(score.loss))
    fail(ErrorKind::numeric,
         "{}: the loss over the {} split is {}: the model of step {} is unusable", options.run,
         options.split, std::abs(score.loss), saved.step);
  if (options.json) {
    const nlohmann::ordered_json result = {{"loss", score.loss},
                                           {"bits", score.bits},
                                           {"accuracy", score.accuracy},
                                           {"tokens", score.tokens}};
    std::printf("%s\n", dump_json(result).c_str());
    return;
  }
  std::printf("step %lld, split %s: loss %.4f nats, %.4f %s, accuracy %.4f, %lld tokens\n",
              static_cast<long long>(saved.step), options.split.c_str(), score.loss, score.bits,
              bits_name(saved.shape), score.accuracy, static_cast<long long>(score.tokens));
}

}  // namespace

void add_eval(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "eval", "loss, bits and accuracy on a split of the data",
                                  "Example:  linea eval runs/digits --split test");
  const auto options = std::make_shared<EvalOptions>();
  add_option(command, "RUN", options->run,
             "a run, a checkpoint folder, or a model.safetensors file", OptionKind::required);
  add_option(command, "--data", options->data, "the data, if moved since training");
  add_option(command, "--split", options->split, "val or test", OptionKind::shows_default);
  add_option(command, "--threads", options->threads, "CPU threads; 0: all cores");
  add_option(command, "--device", options->device,
             "cpu, cuda, or a device by number such as cuda:1", OptionKind::shows_default);
  add_flag(command, "--json", options->json, "one JSON object on stdout");
  set_action(command, [options, &exit_code] {
    run_eval(*options);
    exit_code = 0;
  });
}

}  // namespace linea
