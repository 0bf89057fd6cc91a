// linea attend: one attention on the tensors of a safetensors file, and its gradients where the
// file holds dy.
//
//   in    q, k [B,H,N,D], v [B,H,N,M], all f32 or all f64, which is also what is computed in; dy
//   [B,H,N,M];
//         what the attention needs: omega [H,R,D] (drawn where it is missing), codebook [H,F,D],
//         sigma [1], gate or beta [B,H,N]
//   out   y [B,H,N,M], the omega used, and of dy: dq, dk, dv, dcodebook, dsigma, dgate, dbeta where
//   they exist
//
// Everything is checked before anything is computed, and the file appears whole or not at all.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/attend_run.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "data/files.h"
#include "train/machine.h"

namespace linea {
namespace {

attend::Needs needs_of(const Attention& attention, const AttentionOptions& options) {
  const auto has = [&](const char* name) { return attend::slot_of(attention, name).defined(); };
  return {has("omega"), has("codebook"), has("sigma"),
          attention.gated() ? (options.rule == "delta" ? "beta" : "gate") : ""};
}

void check_range(const char* flag, int64_t value, int64_t min, int64_t max) {
  require(value >= min && value <= max, "{} is {}; it must be from {} to {}", flag, value, min,
          max);
}

void check_flags(const attend::Options& options) {
  constexpr int64_t kMax = int64_t{1} << 31;
  require(options.form == "quadratic" || options.form == "chunked" || options.form == "recurrent",
          "--form is '{}'; choose quadratic, chunked or recurrent", options.form);
  device_of(options.device);
  check_range("--seed", options.seed, 0, INT64_MAX);
  check_range("--threads", options.threads, 0, 4096);
  check_range("--segment", options.attention.segment, 0, kMax);
  check_range("--chunk", options.attention.chunk, 0, kMax);
  check_range("--nu", options.attention.nu, 1, kMax);
  require(options.form != "recurrent" || options.causal,
          "--form recurrent goes from position to position and sees no later key: add --causal");
  std::error_code error;
  require(!std::filesystem::equivalent(options.in, options.out, error),
          "--in and --out are both {}: the result would replace the input", options.in);
}

// Refuses combinations that do not exist before any file is read. Sizes come from the file: of each
// the smallest here.
attend::Needs check_combination(const attend::Options& options) {
  AttentionOptions smallest = options.attention;
  smallest.nu = 1;
  const std::unique_ptr<Attention> attention = make_attention(smallest);
  require(options.causal || !attention->causal_only(),
          "--rule {} has an order of time and exists only with --causal", options.attention.rule);
  return needs_of(*attention, options.attention);
}

// One line for flags that do not change this attention.
void warn_of_unused_flags(const attend::Options& options, const attend::Needs& needs) {
  std::vector<std::string> unused;
  const auto unless = [&](bool used, const char* flag) {
    if (!used && options.given.count(flag) != 0) unused.push_back(std::string("--") + flag);
  };
  unless(feature_of(options.attention) == "dpfp", "nu");
  unless(needs.omega, "features");
  unless(needs.omega, "projection");
  unless(needs.codebook, "codes");
  unless(needs.sigma, "sigma");
  if (!unused.empty())
    fmt::print(stderr, "linea: {} does not use {}: ignored\n", label_of(options.attention),
               fmt::join(unused, ", "));
}

void run_attend(const attend::Options& options) {
  check_flags(options);
  const attend::Needs needs = check_combination(options);
  use_machine(options.threads, options.device);
  attend::InputFile file(options.in);
  const attend::Inputs in = attend::read_inputs(file, needs, options);
  const std::unique_ptr<Attention> attention = attend::attention_for(in, options.attention);
  warn_of_unused_flags(options, needs);
  file.warn_of_unused(label_of(options.attention));
  {
    AtomicFile probe(options.out);
  }  // a folder that takes no files is an error now, not after the work

  std::vector<NamedTensor> out = attend::compute(*attention, in, needs.gate, options);
  for (const auto& [name, tensor] : out)
    if (const auto bad = attend::first_unlike(tensor, [](auto x) { return std::isfinite(x); }))
      fail(ErrorKind::numeric, "{} of {} is {} at {}: the numbers are too large for {}", name,
           options.in, bad->value, bad->place, name_of(tensor.dtype()));
  if (needs.omega) out.insert(out.begin() + 1, {"omega", attend::slot_of(*attention, "omega")});
  write_safetensors(options.out, out);
  std::vector<std::string> written;
  for (const auto& [name, tensor] : out) written.push_back(name + " " + tensor.shape().str());
  fmt::print("{}: {}\n", options.out, fmt::join(written, ", "));
}

}  // namespace

void add_attend(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<attend::Options>();
  AttentionOptions& attention = options->attention;
  CLI::App& command = add_command(
      program, "attend", "one attention, and its gradients, on tensors of your own",
      "--in holds q, k [B,H,N,D] and v [B,H,N,M], all F32 or all F64, and what the "
      "attention needs:\n"
      "  performer     omega [H,R,D]; without it, it is drawn by --features, --projection "
      "and --seed\n"
      "  vq            codebook [H,F,D]\n"
      "  soft-vq       codebook [H,F,D]; sigma [1], or --sigma\n"
      "  --rule gated  gate [B,H,N]      --rule delta  beta [B,H,N]      both between 0 "
      "and 1, --causal only\n"
      "With dy [B,H,N,M] the gradients are computed too (not by --form recurrent).\n"
      "--out holds y, the omega used, and of dy: dq, dk, dv, dcodebook, dsigma, dgate, "
      "dbeta where they exist.\n"
      "vq's dk is that of the code that stands for the key, straight through.");
  add_option(command, "--in", options->in, "a safetensors file", OptionKind::required);
  add_option(command, "--out", options->out, "the safetensors file to write", OptionKind::required);
  add_option(command, "--attention", attention.attention,
             "linear, performer, soft-vq, softmax or vq", OptionKind::shows_default);
  add_option(command, "--feature", attention.feature,
             "of linear: elu (its default), relu, exp, square or dpfp; of performer: positive (its "
             "default), "
             "hyperbolic, trig or relu");
  add_option(command, "--rule", attention.rule, "of linear: sum, gated or delta",
             OptionKind::shows_default);
  add_option(command, "--nu", attention.nu, "of dpfp: F = 2 D nu features",
             OptionKind::shows_default);
  add_option(command, "--features", attention.features,
             "of performer: rows of omega a head, where it is drawn", OptionKind::shows_default);
  add_option(command, "--projection", attention.projection,
             "of performer: iid, orthogonal, stratified or fixed-norm, where omega is drawn",
             OptionKind::shows_default);
  add_option(command, "--codes", attention.codes,
             "of vq and soft-vq: codes a head, as the codebook has them");
  add_option(command, "--sigma", attention.sigma,
             "of soft-vq: the width, where the file has no sigma", OptionKind::shows_default);
  add_option(command, "--seed", options->seed, "of an omega that is drawn",
             OptionKind::shows_default);
  add_flag(command, "--causal", options->causal, "position i sees j <= i; without it, all");
  add_option(command, "--form", options->form,
             "quadratic (the definition), chunked or recurrent (--causal only)",
             OptionKind::shows_default);
  add_option(command, "--threads", options->threads, "processor threads; 0: all cores",
             OptionKind::shows_default);
  add_option(command, "--device", options->device, "cpu", OptionKind::shows_default);
  add_option(command, "--segment", attention.segment,
             "positions whose features exist at a time; 0: chosen", OptionKind::shows_default);
  add_option(command, "--chunk", attention.chunk,
             "rows of a matrix product in linear attention; 0: chosen", OptionKind::shows_default);
  set_action(command, [&command, options, &exit_code] {
    options->given = given_names(command);
    options->attention.seed = static_cast<uint64_t>(options->seed);
    run_attend(*options);
    exit_code = 0;
  });
}

}  // namespace linea
