// linea eval: how well a trained model predicts a split of its data.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/sample_flags.h"
#include "cli/terminal.h"
#include "data/json.h"
#include "train/evaluate.h"
#include "train/machine.h"
#include "train/record/table.h"
#include "train/run/checkpoint.h"
#include "train/run/out_of_memory_hint.h"

namespace linea {
namespace {

struct EvalOptions {
  std::string run, data, split = "val", weights = kLastWeights, context = "windows";
  int64_t threads = 0;
  std::string device = "cpu";
  bool json = false;
};

Split split_named(const std::string& name) {
  for (const Split split : {Split::train, Split::val, Split::test})
    if (name == split_name(split)) return split;
  fail(ErrorKind::usage, "--split is '{}'; choose val or test", name);
}

// The loss along a text: of each stretch with the state that is carried to it, and by windows.
struct LossAlong {
  int64_t first, end;  // positions
  double carried, windows;
};

std::vector<LossAlong> loss_along(const Score& carried, const Score& windows) {
  std::vector<LossAlong> all;
  int64_t first = 0;
  for (size_t s = 0; s < carried.stretches.size(); ++s) {
    const Stretch& stretch = carried.stretches[s];
    all.push_back({first, first + stretch.tokens, stretch.loss, windows.stretches.at(s).loss});
    first = all.back().end;
  }
  return all;
}

void print_along(const std::vector<LossAlong>& all) {
  std::vector<std::vector<std::string>> rows;
  for (const LossAlong& row : all)
    rows.push_back({fmt::format("{} to {}", row.first, row.end - 1),
                    fmt::format("{:.4f}", row.carried), fmt::format("{:.4f}", row.windows),
                    fmt::format("{:+.4f}", row.carried - row.windows)});
  fmt::print("nats per token along the split:\n");
  print_table({{"positions"}, {"carried", true}, {"windows", true}, {"difference", true}}, rows);
}

nlohmann::ordered_json json_along(const std::vector<LossAlong>& all) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const LossAlong& row : all)
    rows.push_back({{"first", row.first},
                    {"end", row.end},
                    {"carried", row.carried},
                    {"windows", row.windows}});
  return rows;
}

void run_eval(const EvalOptions& options) {
  const Split split = split_named(options.split);
  check_choice("context", options.context, {"windows", "carried"});
  const bool carried = options.context == "carried";
  require(!carried || ranks().alone(),
          "`context` carried is the work of one process: start it without mpirun");
  use_machine(options.threads, options.device);
  SavedModel saved = load_model(options.run, "", weights_named(options.weights));
  print_note(saved.note);
  if (!options.data.empty()) set_data(saved.config, options.data);
  const std::unique_ptr<Task> task = make_saved_task(task_options(saved.config, saved.vocabulary));
  TerminalProgress progress;
  for (const std::string& note : task->notes()) progress.note(note);
  std::vector<LossAlong> along;
  const Score score = with_model_memory(saved.model.get(), machine_hint(), [&] {
    const auto by_windows = [&] {
      return evaluate(*saved.model, *task, split, saved.config.batch, 0,
                      show_time_left(progress, "sequences"), &ranks());
    };
    if (!carried) return by_windows();
    const Score result = evaluate_carried(*saved.model, *task, split,
                                          show_time_left(progress, "sequences, carried"));
    along = loss_along(result, by_windows());
    return result;
  });
  if (progress.is_terminal()) progress.note("");
  if (!std::isfinite(score.loss))
    fail(ErrorKind::numeric,
         "{}: the loss over the {} split is {}: the model of step {} is unusable", options.run,
         options.split, std::abs(score.loss), saved.step);
  if (options.json) {
    nlohmann::ordered_json result = {{"loss", score.loss},
                                     {"bits", score.bits},
                                     {"accuracy", score.accuracy},
                                     {"tokens", score.tokens}};
    if (saved.shape.answer_tokens > 0) result["majority"] = score.majority;
    if (is_text(saved.shape)) {
      result["bits_per_byte"] = score.bits_per_byte;
      result["context"] = options.context;
    }
    if (carried) result["along"] = json_along(along);
    std::printf("%s\n", dump_json(result).c_str());
    return;
  }
  if (saved.shape.answer_tokens > 0) {
    fmt::print(
        "step {}, split {}: loss {:.4f} nats, accuracy {:.4f}, majority {:.4f}, {} answers\n",
        saved.step, options.split, score.loss, score.accuracy, score.majority, score.tokens);
    return;
  }
  fmt::print("step {}, split {}{}: loss {:.4f} nats, {:.4f} {}, {}accuracy {:.4f}, {} tokens\n",
             saved.step, options.split, carried ? ", state carried" : "", score.loss, score.bits,
             bits_name(saved.shape),
             is_text(saved.shape) ? fmt::format("{:.4f} bits/byte, ", score.bits_per_byte) : "",
             score.accuracy, score.tokens);
  if (carried) print_along(along);
}

}  // namespace

void add_eval(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(program, "eval", "loss, bits and accuracy on a split of the data",
                                  "Example:  linea eval runs/digits --split test");
  const auto options = std::make_shared<EvalOptions>();
  add_option(command, "RUN", options->run,
             "a run, a checkpoint folder, or a model.safetensors file", OptionKind::required);
  add_option(command, "--data", options->data, "the data, if moved since training");
  add_option(command, "--split", options->split, "the split", OptionKind::shows_default);
  set_choices(command, "--split", {"val", "test"});
  add_option(
      command, "--context", options->context,
      "of a text: windows as long as in training, or carried: one sequence, its state carried "
      "through all of it, with a table of the loss along it (models without positions)",
      OptionKind::shows_default);
  set_choices(command, "--context", {"windows", "carried"});
  add_weights_flag(command, options->weights, false);
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
