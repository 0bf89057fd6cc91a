// linea sample: pictures as a grid in a PNG, or text on stdout as it is drawn.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <memory>

#include "data/files.h"
#include "train/commands.h"
#include "train/progress.h"
#include "train/samples.h"

namespace linea {
namespace {

struct SampleOptions {
  std::string run, out = "grid.png", prompt, prompt_file;
  int64_t count = 64, class_label = -1, tokens = 500, seed = 1, threads = 0;
  SamplingOptions sampling;
};

void sample_pictures(const SavedModel& saved, const SampleOptions& options) {
  Progress progress;
  const Stopwatch watch;
  const std::string preview =
      draw_pictures(*saved.model, saved.shape, options.sampling, {options.count, options.class_label}, options.out,
                    colour_terminal_width(), [&](int64_t done, int64_t all) {
                      if (progress.due(done == all))
                        progress.show(fmt::format("{} of {} symbols, {} left", done, all,
                                                  duration_text(watch.seconds() / static_cast<double>(done) *
                                                                static_cast<double>(all - done))));
                    });
  progress.note(fmt::format("{} pictures of step {} in {:.1f}s: {:.2f} pictures/s", options.count, saved.step,
                            watch.seconds(), static_cast<double>(options.count) / watch.seconds()));
  std::fputs(preview.c_str(), stdout);
  std::printf("%s\n", options.out.c_str());
}

void sample_text(const SavedModel& saved, const SampleOptions& options) {
  const std::string prompt = options.prompt_file.empty() ? options.prompt : read_file(options.prompt_file);
  draw_text(*saved.model, saved.vocabulary, options.sampling, prompt, options.tokens, [](const std::string& piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  });
  std::fputc('\n', stdout);
}

void refuse_flags(const CLI::App& verb, const std::string& drawn, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags)
    require(verb.get_option(flag)->count() == 0, "{} has no meaning for a model of {}; leave it out", flag, drawn);
}

}  // namespace

void add_sample(CLI::App& program, int& exit_code) {
  CLI::App* verb = program.add_subcommand("sample", "draw pictures or text from a trained model");
  const auto options = std::make_shared<SampleOptions>();
  verb->add_option("RUN", options->run, "a run, a checkpoint's folder, or a model.safetensors")->required();
  verb->add_option("--count", options->count, "pictures to draw")->capture_default_str();
  verb->add_option("--out", options->out, "the PNG of the pictures")->capture_default_str();
  verb->add_option("--class", options->class_label, "only this class; without it, each in turn");
  CLI::Option* prompt = verb->add_option("--prompt", options->prompt, "text to go on from");
  verb->add_option("--prompt-file", options->prompt_file, "a file of text to go on from")->excludes(prompt);
  verb->add_option("--tokens", options->tokens, "symbols of text to draw")->capture_default_str();
  verb->add_option("--temperature", options->sampling.temperature, "below 1: likelier symbols; above: wilder")
      ->capture_default_str();
  verb->add_flag("--greedy", options->sampling.greedy, "the likeliest symbol always");
  verb->add_option("--seed", options->seed, "of what is drawn")->capture_default_str();
  verb->add_option("--threads", options->threads, "processor threads; 0: all cores");
  verb->callback([verb, options, &exit_code] {
    require(options->seed >= 0, "--seed is {}; it must be at least 0", options->seed);
    require(options->sampling.temperature > 0, "--temperature is {}; it must be above 0 (or say --greedy)",
            options->sampling.temperature);
    if (options->threads != 0) set_threads(static_cast<int>(options->threads));
    options->sampling.seed = static_cast<uint64_t>(options->seed);
    const SavedModel saved = load_model(options->run);
    require(saved.shape.pair_vocabulary == 0, "{} answers questions of the task {}; there is nothing to sample: see linea eval",
            options->run, saved.config.task);
    const bool pictures = saved.shape.side > 0;
    refuse_flags(*verb, pictures ? "pictures" : "text",
                 pictures ? std::vector<std::string>{"--prompt", "--prompt-file", "--tokens"}
                          : std::vector<std::string>{"--count", "--out", "--class"});
    if (pictures) {
      sample_pictures(saved, *options);
    } else {
      sample_text(saved, *options);
    }
    exit_code = 0;
  });
}

}  // namespace linea
