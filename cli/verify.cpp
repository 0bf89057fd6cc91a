// linea verify: every attention's forms, gradients, causality, padding and memory, measured on this
// machine.
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "data/json.h"
#include "nn/verify/conformance.h"
#include "train/machine.h"

namespace linea {
namespace {

struct VerifyOptions {
  std::string attention, device = "cpu";
  bool json = false;
};

std::vector<AttentionOptions> asked_variants(const std::string& name) {
  if (!name.empty()) return find_attention(name).variant_options();
  std::vector<AttentionOptions> result;
  for (const AttentionEntry& entry : attentions())
    for (const AttentionOptions& variant : entry.variant_options()) result.push_back(variant);
  return result;
}

// JSON has no NaN: a number that is not finite becomes a string.
nlohmann::json number(double x) {
  if (std::isfinite(x)) return x;
  return fmt::format("{}", x);
}

void print_json(const std::string& attention, const Check& check) {
  nlohmann::ordered_json line;
  line["attention"] = attention;
  line["check"] = check.name;
  line["measured"] = number(check.measured);
  line["bound"] = number(check.bound);
  line["passed"] = check.passed;
  fmt::print("{}\n", dump_json(line));
}

void print_row(const Check& check) {
  fmt::print("  {:<36} {:>9.2g} {:>9.2g}  {}\n", check.name, check.measured, check.bound,
             check.passed ? "ok" : "FAILED");
  if (!check.passed && !check.detail.empty()) fmt::print("    at {}\n", check.detail);
}

// 0, or 4 where a check failed. Error: ErrorKind::usage for an attention that does not exist.
int run_verify(const VerifyOptions& options) {
  use_machine(0, options.device, "fp32");
  int done = 0, failed = 0;
  const std::vector<AttentionOptions> variants = asked_variants(options.attention);
  if (!options.json) fmt::print("  {:<36} {:>9} {:>9}\n", "check", "measured", "bound");
  for (const AttentionOptions& variant : variants) {
    const std::string label = label_of(variant);
    if (!options.json) fmt::print("{}\n", label);
    for (const Check& check : check_attention(variant, {})) {
      options.json ? print_json(label, check) : print_row(check);
      ++done;
      failed += check.passed ? 0 : 1;
    }
    std::fflush(stdout);
  }
  fmt::print(stderr, "{} checks, {} failed\n", done, failed);
  return failed == 0 ? 0 : static_cast<int>(ErrorKind::numeric);
}

}  // namespace

void add_verify(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App& command = add_command(
      program, "verify",
      "check every attention: forms, gradients, causality, padding, determinism, memory",
      "Example:  linea verify --attention performer");
  add_option(command, "--attention", options->attention, "check only this attention; default: all");
  set_choices(command, "--attention", attention_names());
  add_option(command, "--device", options->device,
             "cpu, cuda, or a device by number such as cuda:1", OptionKind::shows_default);
  add_flag(command, "--json", options->json, "one JSON object per check");
  set_action(command, [options, &exit_code] { exit_code = run_verify(*options); });
}

}  // namespace linea
