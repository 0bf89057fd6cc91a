// linea verify: every attention's forms, gradients, causality, padding and memory, measured on this
// machine; with --break those of an attention that is wrong on purpose.
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/setting_flags.h"
#include "data/json.h"
#include "nn/verify/breaks.h"
#include "nn/verify/conformance.h"
#include "train/machine.h"

namespace linea {
namespace {

struct VerifyOptions {
  std::string attention, device = "cpu", check, broken;
  Settings settings;  // texts, by key
  bool json = false, quick = false;
  bool has_settings() const { return settings.begin() != settings.end(); }
};

std::vector<AttentionOptions> asked_variants(const VerifyOptions& options) {
  const std::string& name = options.attention;
  require(!name.empty() || !options.has_settings(), "settings of an attention need --attention");
  if (options.has_settings()) return chosen_attentions({name}, options.settings);
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

struct Counts {
  int done = 0, failed = 0;
};

Counts run_checks(const VerifyOptions& options, const std::vector<AttentionOptions>& variants,
                  const ConformanceOptions& conformance) {
  Counts counts;
  if (!options.json) fmt::print("  {:<36} {:>9} {:>9}\n", "check", "measured", "bound");
  for (const AttentionOptions& variant : variants) {
    const std::string label = label_of(variant);
    if (!options.json) fmt::print("{}\n", label);
    for (const Check& check : check_attention(variant, conformance)) {
      options.json ? print_json(label, check) : print_row(check);
      ++counts.done;
      counts.failed += check.passed ? 0 : 1;
    }
    std::fflush(stdout);
  }
  require(counts.done > 0,
          "--check {}: no check has a name that begins so; without --check all are "
          "listed",
          options.check);
  return counts;
}

// Those with the defect. Error: ErrorKind::usage, none of them, or of all attentions.
std::vector<AttentionOptions> broken_variants(const VerifyOptions& options,
                                              const sabotage::Break& broken) {
  require(!options.attention.empty(), "--break {} needs {}", broken.name,
          broken.attention.empty() ? "--attention" : broken.attention);
  std::vector<AttentionOptions> variants = asked_variants(options);
  std::erase_if(variants, [&](const AttentionOptions& variant) {
    AttentionOptions smallest = variant;
    smallest.image_width = smallest.image_channels = 1;
    if (broken.sees_all && make_smallest(smallest)->traits().causal_only) return true;
    return ("--attention " + label_of(variant)).rfind(broken.attention, 0) != 0;
  });
  require(!variants.empty(), "--break {} is a defect of {} alone", broken.name,
          broken.sees_all ? "attentions that are not causal by definition" : broken.attention);
  return variants;
}

// 0, or 4 where a check failed; with --break, 4 where none did. Error: ErrorKind::usage for an
// attention that does not exist.
int run_verify(const VerifyOptions& options) {
  use_machine(0, options.device, "fp32");
  constexpr int kFailed = static_cast<int>(ErrorKind::numeric);
  ConformanceOptions conformance{.quick = options.quick, .only = options.check};
  if (options.broken.empty()) {
    const Counts counts = run_checks(options, asked_variants(options), conformance);
    fmt::print(stderr, "{} checks, {} failed\n", counts.done, counts.failed);
    return counts.failed == 0 ? 0 : kFailed;
  }
  const sabotage::Break& broken = sabotage::find_break(options.broken);
  conformance.make = broken.make;
  const Counts counts = run_checks(options, broken_variants(options, broken), conformance);
  fmt::print(stderr, "{}: {} checks, {} failed: {}\n", broken.about, counts.done, counts.failed,
             counts.failed > 0 ? "caught" : "NOT caught");
  return counts.failed > 0 ? 0 : kFailed;
}

}  // namespace

void add_verify(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App& command = add_command(
      program, "verify",
      "check every attention: forms, gradients, causality, padding, determinism, memory",
      "Example:  linea verify --attention performer\n"
      "          linea verify --attention linear --feature exp --check causality --break "
      "stabilizer\n\n"
      "With --break the attention has a known defect: exit 0 where a check fails, 4 where none "
      "does.");
  add_option(command, "--attention", options->attention, "check only this attention; default: all");
  set_choices(command, "--attention", attention_names());
  add_option(command, "--check", options->check, "only the checks whose names begin so");
  add_option(command, "--break", options->broken, "a defect, which a check must find");
  set_choices(command, "--break", sabotage::break_names());
  add_flag(command, "--quick", options->quick, "fewer lengths, and nothing at 16384 positions");
  add_option(command, "--device", options->device,
             "cpu, cuda, or a device by number such as cuda:1", OptionKind::shows_default);
  add_flag(command, "--json", options->json, "one JSON object per check");
  add_mechanism_flags(command, options->settings, {"attention"});
  set_action(command, [options, &exit_code] { exit_code = run_verify(*options); });
}

}  // namespace linea
