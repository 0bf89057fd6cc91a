#include "cli/describe.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace linea {
namespace {

// Completions of a flag or an argument that has no choices. A name means the same in every
// command, but for the paths of --out.
struct NamedOffer {
  const char* name;  // or "COMMAND NAME"
  Offer offer;
  std::vector<std::string> words = {};
};
const std::vector<NamedOffer>& named_offers() {
  static const std::vector<NamedOffer> offers = {
      {"RUN", Offer::runs},
      {"PATH", Offer::files},
      {"FOLDER", Offer::folders},
      {"DIR", Offer::folders},
      {"train --out", Offer::folders},
      {"get --out", Offer::folders},
      {"compare --out", Offer::folders},
      {"--out", Offer::files},
      {"--in", Offer::files},
      {"--resume", Offer::folders},
      {"--init-from", Offer::runs},
      {"--diff", Offer::folders},
      {"--config", Offer::files},
      {"--data", Offer::files},
      {"--prompt-file", Offer::files},
      {"--prompts", Offer::files},
      {"--complete", Offer::files},
      {"--on", Offer::files},
      {"--svg", Offer::files},
      {"--csv", Offer::files},
      {"--check",
       Offer::words,
       {"causality", "gradients", "large", "memory", "other", "outputs", "padding", "state", "step",
        "two"}},
      {"--device", Offer::words, {"cpu", "cuda"}},
      {"--dtype", Offer::words, {"auto", "fp32", "tf32", "bf16"}},
      {"--metrics",
       Offer::words,
       {"loss", "bits", "accuracy", "lr", "grad_norm", "tokens_per_s", "elapsed_s", "peak_bytes",
        "val_loss", "val_bits", "val_accuracy"}}};
  return offers;
}

void set_offer(const std::string& command, DescribedOption& option) {
  if (!option.choices.empty()) {
    option.offer = Offer::words;
    return;
  }
  const std::string name = option.flags.empty() ? option.name : option.flags.front();
  for (const NamedOffer& named : named_offers())
    if (named.name == name || named.name == command + " " + name) {
      option.offer = named.offer;
      option.choices = named.words;
      return;
    }
}

DescribedOption describe(const CLI::Option& option) {
  DescribedOption result;
  for (const std::string& name : option.get_lnames()) result.flags.push_back("--" + name);
  result.name = option.get_name(true);
  if (option.get_items_expected_max() > 0) result.value = option.get_type_name();
  // "A|B", as set_choices (cli/flags.h) writes it
  if (result.value.find('|') != std::string::npos)
    result.choices = CLI::detail::split(result.value, '|');
  result.initial = option.get_default_str();
  result.help = option.get_description();
  result.group = option.get_group();
  return result;
}

}  // namespace

DescribedCommand describe(const CLI::App& app) {
  DescribedCommand result{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) {
      result.options.push_back(describe(*option));
      set_offer(app.get_name(), result.options.back());
    }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    result.commands.push_back(describe(*command));
  return result;
}

}  // namespace linea
