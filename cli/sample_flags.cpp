#include "cli/sample_flags.h"

#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "cli/flags.h"
#include "tensor/ops.h"
#include "train/weights.h"

namespace linea {

namespace fs = std::filesystem;

void add_sampling_flags(CLI::App& command, SamplingOptions& sampling, int64_t& seed) {
  add_option(command, "--temperature", sampling.temperature,
             "divides the logits: below 1 more likely tokens, above 1 more random ones",
             OptionKind::shows_default);
  add_option(command, "--top-k", sampling.top_k, "sample from the k most likely tokens; 0: all",
             OptionKind::shows_default);
  add_option(command, "--top-p", sampling.top_p,
             "sample from the fewest tokens whose probabilities sum to this",
             OptionKind::shows_default);
  add_option(command, "--guidance", sampling.guidance,
             "how strongly images follow their class, for runs with --class-dropout: the scores "
             "are u + S (c - u), with the class c and without u; 1: c alone",
             OptionKind::shows_default);
  add_flag(command, "--greedy", sampling.greedy, "always take the most likely token");
  add_option(command, "--seed", seed, "random seed", OptionKind::shows_default);
}

void add_weights_flag(CLI::App& command, std::string& weights, bool best) {
  add_option(command, "--weights", weights,
             fmt::format("the weights of a checkpoint's step, or their average by --ema{}",
                         best ? "; --best follows" : ""),
             OptionKind::shows_default);
  set_choices(command, "--weights", {kLastWeights, kAverageWeights});
}

void check_sampling_flags(SamplingOptions& sampling, int64_t seed) {
  require(seed >= 0, "--seed is {}; it must be at least 0", seed);
  ops::check_sampling_params(sampling.params());
  sampling.seed = static_cast<uint64_t>(seed);
}

void check_png_name(const std::string& out) {
  std::string extension = fs::path(out).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::error_code ignored;
  require(extension.empty() || extension == ".png" || fs::is_directory(out, ignored),
          "--out is '{}'; the image is a PNG: name a .png file", out);
}

std::string free_png_name(const std::string& stem) {
  std::string name = stem + ".png";
  std::error_code ignored;
  for (int i = 2; fs::exists(fs::symlink_status(name, ignored)); ++i)
    name = fmt::format("{}-{}.png", stem, i);
  return name;
}

}  // namespace linea
