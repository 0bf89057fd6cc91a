// linea attend: one attention on the tensors of a file, and its gradients where the file holds dy.
//
//   in    q, k [B,H,N,D], v and dy [B,H,N,M], all f32 or all f64, the dtype of the computation;
//         inputs of the attention: its AttentionEntry::tensors (omega is sampled where it is
//         missing) and gates [B,H,N] or [B,H,N,GateSpec::size]
//   out   y [B,H,N,M], the omega used, and with dy: dq, dk, dv and, named likewise, the gradients
//         of parameters and gates; without --out they are printed
//
// Everything is checked before anything is computed, and the file appears whole or not at all.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "autograd/update_rule.h"
#include "cli/attend_inputs.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/setting_flags.h"
#include "data/files.h"
#include "nn/verify/show.h"
#include "train/machine.h"

namespace linea {
namespace {

// "  vq            codebook [H,F,D]"
std::string tensors_help() {
  std::string help;
  for (const AttentionEntry& entry : attentions()) {
    std::vector<std::string> tensors;
    for (const InputTensor& input : entry.tensors)
      tensors.push_back(
          fmt::format("{} [{}]{}", input.name, fmt::join(input.axes, ","), input.note));
    AttentionOptions options{entry.name};
    options.image_width = options.image_channels = 1;
    options.key_size = 2;  // shows which gates have its size
    for (const GateValue& part : make_attention(options)->gate().parts())
      tensors.push_back(fmt::format("{} [B,H,N{}]{}", part.name, part.size > 1 ? ",D" : "",
                                    part.max == 0 ? ", a logarithm" : ""));
    if (tensors.empty()) continue;
    help += fmt::format("  {:<13} {}\n", entry.name, fmt::join(tensors, "; "));
  }
  for (const RulePtr& rule : rules()) {
    const RuleSpec& spec = rule->spec();
    if (spec.gate.size > 0)
      help += fmt::format("  --rule {:<12} {} [B,H,N{}]{}\n", spec.name, spec.gate.name,
                          spec.gate.size > 1 ? fmt::format(",{}", spec.gate.size) : "",
                          !spec.decay_gate     ? ""
                          : spec.gate.size > 1 ? ": the last is the decay of the state"
                                               : ": the decay of the state");
  }
  return help;
}

void check_flags(const attend::Options& options) {
  constexpr int64_t kMax = int64_t{1} << 31;
  attend::parse_form(options.form);
  parse_device(options.device);
  check_range("--seed", options.seed, 0, INT64_MAX);
  check_range("--threads", options.threads, 0, kMaxThreads);
  check_range("--segment", options.attention.segment, 0, kMax);
  check_range("--chunk", options.attention.chunk, 0, kMax);
  check_range("--image-width", options.attention.image_width, 0, kMax);
  if (options.attention.image_width > 0)
    check_range("--image-channels", options.attention.image_channels, 1, 4);
  require(options.form != "recurrent" || options.causal,
          "--form recurrent processes positions in order and sees no later key: add --causal");
  for (const std::string& name : options.show) check_choice("show", name, attend::shown_names());
  std::error_code error;
  require(options.out.empty() || !std::filesystem::equivalent(options.in, options.out, error),
          "--in and --out are both {}: the result would replace the input", options.in);
}

// Refuses combinations that do not exist before any file is read, which gives all sizes.
std::unique_ptr<Attention> check_combination(const attend::Options& options) {
  std::unique_ptr<Attention> attention = make_smallest(options.attention);
  require(options.causal || !attention->traits().causal_only,
          "{} is causal by definition: add --causal", label_of(options.attention));
  require(!options.causal || attention->traits().not_causal.empty(),
          "{} has no causal form: {}; leave --causal out", label_of(options.attention),
          attention->traits().not_causal);
  return attention;
}

// With the tables that the attention sampled, into --out.
void write_results(const attend::Options& options, const Attention& attention,
                   std::vector<NamedTensor> out) {
  for (const InputTensor& input : find_attention(options.attention.name).tensors)
    if (const Tensor own = attend::find_tensor(attention, input.name);
        !input.required && input.axes != "1" && own.defined())  // perhaps sampled
      out.insert(out.begin() + 1, {input.name, own});
  write_safetensors(options.out, out);
  std::vector<std::string> written;
  for (const auto& [name, tensor] : out) written.push_back(name + " " + tensor.shape().str());
  fmt::print("{}: {}\n", options.out, fmt::join(written, ", "));
}

void print_results(const std::vector<NamedTensor>& out) {
  constexpr int64_t kMaxPrinted = 4096;
  std::vector<NamedTensor> numbers;
  for (const auto& [name, tensor] : out) {
    require(tensor.numel() <= kMaxPrinted,
            "{} has {} numbers, and at most {} are printed: write them with --out FILE", name,
            tensor.numel(), kMaxPrinted);
    if (tensor.dtype() != DType::i32) numbers.push_back({name, tensor});  // not decisions
  }
  fmt::print("{}", attend::to_text(numbers));
}

void run_attend(const attend::Options& options) {
  check_flags(options);
  const std::unique_ptr<Attention> smallest = check_combination(options);
  const GateSpec gate = smallest->gate();
  use_machine(options.threads, options.device);
  attend::InputFile file(options.in);
  const attend::Inputs in = attend::read_inputs(file, gate, smallest->traits(), options);
  const std::unique_ptr<Attention> attention = attend::attention_for(in, options.attention);
  file.warn_of_unused(label_of(options.attention));
  if (!options.out.empty()) {
    AtomicFile probe(options.out);
  }  // a folder that takes no files is an error now, not after the work

  const attend::Form form = attend::parse_form(options.form);
  const std::vector<NamedTensor> out = attend::compute(*attention, in, form, options.causal);
  for (const auto& [name, tensor] : out)
    if (const auto bad =
            tensor.dtype() == DType::i32  // decisions
                ? std::nullopt
                : attend::first_unlike(tensor, [](auto x) { return std::isfinite(x); }))
      fail(ErrorKind::numeric, "{} of {} is {} at {}: the numbers are too large for {}", name,
           options.in, bad->value, bad->position, name_of(tensor.dtype()));
  if (!options.show.empty())
    fmt::print("{}", attend::show(options.attention, in, form, options.causal, options.show));
  options.out.empty() ? print_results(out) : write_results(options, *attention, out);
}

// Shown after the flags.
std::string footer() {
  return "Example:  linea attend --in qkv.safetensors --out y.safetensors --attention vq "
         "--causal\n"
         "          linea attend --in lessons/toy.json --causal --form recurrent --show steps\n\n"
         "--in holds q, k [B,H,N,D] (lsh, synthesizer --synth dense: no k; average, synthesizer "
         "--synth random: neither) and v [B,H,N,M], all F32 or all F64, and what the "
         "attention needs:\n" +
         tensors_help() +
         "Gates are from 0 to 1, both included, and need --causal. A sum with the decay g writes "
         "1 - g. A decay below 4e-44 counts as 4e-44.\n"
         "With dy [B,H,N,M] the gradients are computed too (except with --form recurrent).\n"
         "A file NAME.json holds the same as nested arrays, computed in F64: "
         "{\"q\": [[0,0],[0,1]], ...}; leading sizes of 1 may be left out.\n"
         "--out holds y, the omega, rotations or slots used, and with dy: dq, dk, dv and, named "
         "likewise, the gradients of a codebook, sigma and gates. Without --out, y and gradients "
         "are printed.\n"
         "Where a decay is below 0.01 or exactly 1, its gradient is computed one position after "
         "the other, slowly: the fast forms have it to about 1e-7 / gate in F32.\n"
         "What an attention chooses by q and k (lsh, topk) is written as decisions, I32, and "
         "taken from --in where they are there.\n"
         "vq: dk is the gradient of the key's code, passed straight through.";
}

void add_sizes(CLI::App& command, AttentionOptions& attention) {
  add_option(command, "--segment", attention.segment,
             "positions whose features are in memory at once; 0: automatic",
             OptionKind::shows_default);
  add_option(command, "--image-width", attention.image_width,
             "q, k and v are the tokens of an image of this width, row by row; 0: of no image",
             OptionKind::shows_default);
  add_option(command, "--image-channels", attention.image_channels, "tokens of a pixel",
             OptionKind::shows_default);
  add_option(command, "--chunk", attention.chunk, "chunk length of linear attention; 0: automatic",
             OptionKind::shows_default);
}

}  // namespace

void add_attend(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<attend::Options>();
  options->attention.image_channels = 1;
  AttentionOptions& attention = options->attention;
  CLI::App& command = add_command(
      program, "attend", "run one attention, with gradients, on your own tensors", footer());
  add_option(command, "--in", options->in, "safetensors or JSON file with the inputs",
             OptionKind::required);
  add_option(command, "--out", options->out, "safetensors file to write; default: print results");
  add_option(
      command, "--show", options->show,
      "print these of a short sequence too: features, weights, the last state, or the form's "
      "steps",
      OptionKind::comma_separated);
  set_choices(command, "--show", attend::shown_names());
  add_option(command, "--attention", attention.name, "the mechanism", OptionKind::shows_default);
  set_choices(command, "--attention", attention_names());
  add_option(command, "--seed", options->seed, "random seed of a sampled omega",
             OptionKind::shows_default);
  add_flag(command, "--causal", options->causal,
           "position i attends to j <= i; default: all positions");
  add_option(command, "--form", options->form,
             "the definition, chunks, or a state from position to position (--causal only)",
             OptionKind::shows_default);
  set_choices(command, "--form", {"quadratic", "chunked", "recurrent"});
  add_option(command, "--threads", options->threads, "CPU threads; 0: all cores",
             OptionKind::shows_default);
  add_option(command, "--device", options->device, "cpu", OptionKind::shows_default);
  add_sizes(command, attention);
  add_mechanism_flags(command, options->settings, {"attention"});
  set_action(command, [options, &exit_code] {
    AttentionOptions& chosen = options->attention;
    AttentionOptions given = chosen_attentions({chosen.name}, options->settings).front();
    given.segment = chosen.segment;
    given.chunk = chosen.chunk;
    given.image_width = chosen.image_width;
    given.image_channels = chosen.image_width > 0 ? chosen.image_channels : 0;
    chosen = given;
    options->attention.seed = static_cast<uint64_t>(options->seed);
    run_attend(*options);
    exit_code = 0;
  });
}

}  // namespace linea
